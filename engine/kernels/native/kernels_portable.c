#include <math.h>

#include "decode_portable.h"
#include "words_portable.h"
#include "bytes_portable.h"

enum { WAYS_OF_MANY = 1, HALVES_AT_ONCE = 1 };
#include "linear.inc.h"
#include "tiles.inc.h"
#include "tile_packing.inc.h"
#include "elementwise.inc.h"
#include "pages.inc.h"
#include "codec.inc.h"
#include "attention_block.inc.h"
#include "attention.inc.h"
#include "bounds.inc.h"
#include "queries.inc.h"
#include "select.inc.h"
#include "sketch.inc.h"
#include "blocks_portable.h"
#include "products.inc.h"
#include "rows_attention.inc.h"
#include "far_attention.inc.h"

const KernelTable portable_kernels = {
    .isa = "portable",
    .multiply = multiply,
    .dequantize = dequantize,
    .quantize = quantize,
    .multiply_tiles = multiply_tiles,
    .expand_tile = expand_one_tile,
    .pack_tile = pack_one_tile,
    .rms_norm = rms_norm,
    .silu_mul = silu_mul,
    .write_kv = write_kv,
    .encode = encode,
    .gather = gather,
    .attend = attend,
    .fold = fold,
    .attend_tail = attend_tail,
    .bound_page = bound_page,
    .bound_section = bound_section,
    .select_prepare = select_prepare,
    .select_sections = select_sections,
    .select_weigh = select_weigh,
    .select_pages_of = select_pages_of,
    .select_closely = select_closely,
    .select_weigh_closely = select_weigh_closely,
    .multiply_panel = multiply_panel,
    .pack_tokens = pack_tokens,
    .attend_rows = attend_rows,
    .attend_far = attend_far,
};
