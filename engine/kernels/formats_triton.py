"""The weight formats in Triton: 32 weights at a time, as they lie in their blocks. See `formats.py`.

Weights come in two halves, numbers `lane` and `lane + 16` of a run of 32 neighbours in a row, because in most formats
one byte holds a number of each half.
"""

from __future__ import annotations

from octavo.engine.kernels.triton_jit import constexpr, jit, tensor, tl


@jit
def load_weights(row: tensor, run: tensor, lane: tensor, cols: tensor, kind: constexpr) -> tensor:
    """Both halves, float32, of run number `run` of the rows that start at byte addresses `row`.

    `row`, `run` and `lane` (0..15) broadcast to the shape of the halves; beyond `cols` weights of a row they are 0.
    `kind` is the ggml type number.
    """
    there = run * 32 < cols  # quantized rows end at the end of a run
    if kind == 2:  # Q4_0
        low, high = _nibbles(row + run * 18 + 2 + lane, there)
        scale = _half(row + run * 18, there)
        low, high = scale * (low - 8).to(tl.float32), scale * (high - 8).to(tl.float32)
    elif kind == 3:  # Q4_1
        low, high = _nibbles(row + run * 20 + 4 + lane, there)
        scale, zero = _half(row + run * 20, there), _half(row + run * 20 + 2, there)
        low, high = scale * low.to(tl.float32) + zero, scale * high.to(tl.float32) + zero
    elif kind == 6:  # Q5_0
        low, high = _fives(row + run * 22 + 2, lane, there)
        scale = _half(row + run * 22, there)
        low, high = scale * (low - 16).to(tl.float32), scale * (high - 16).to(tl.float32)
    elif kind == 7:  # Q5_1
        low, high = _fives(row + run * 24 + 4, lane, there)
        scale, zero = _half(row + run * 24, there), _half(row + run * 24 + 2, there)
        low, high = scale * low.to(tl.float32) + zero, scale * high.to(tl.float32) + zero
    elif kind == 8:  # Q8_0
        block = row + run * 34
        scale = _half(block, there)
        low = _signed(block + 2 + lane, there).to(tl.float32) * scale
        high = _signed(block + 18 + lane, there).to(tl.float32) * scale
    elif kind == 12:  # Q4_K
        block, part = row + run // 8 * 144, run % 8
        codes = block + 16 + part // 2 * 32 + lane
        low = (_byte(codes, there) >> (part % 2 * 4)) & 15
        high = (_byte(codes + 16, there) >> (part % 2 * 4)) & 15
        scale, minimum = _k_scales(block, part, there)
        low, high = scale * low.to(tl.float32) - minimum, scale * high.to(tl.float32) - minimum
    elif kind == 13:  # Q5_K
        block, part = row + run // 8 * 176, run % 8
        codes, fifths = block + 48 + part // 2 * 32 + lane, block + 16 + lane
        low = ((_byte(codes, there) >> (part % 2 * 4)) & 15) | (((_byte(fifths, there) >> part) & 1) << 4)
        high = ((_byte(codes + 16, there) >> (part % 2 * 4)) & 15) | (((_byte(fifths + 16, there) >> part) & 1) << 4)
        scale, minimum = _k_scales(block, part, there)
        low, high = scale * low.to(tl.float32) - minimum, scale * high.to(tl.float32) - minimum
    elif kind == 14:  # Q6_K
        block, part = row + run // 8 * 210, run % 8
        # Four runs share 64 bytes of low bits and 32 of high ones.
        codes = block + part // 4 * 64 + part % 2 * 32 + lane
        tops = block + 128 + part // 4 * 32 + lane
        shift, top_shift = part % 4 // 2 * 4, part % 4 * 2
        low = ((_byte(codes, there) >> shift) & 15) | (((_byte(tops, there) >> top_shift) & 3) << 4)
        high = ((_byte(codes + 16, there) >> shift) & 15) | (((_byte(tops + 16, there) >> top_shift) & 3) << 4)
        scale, scales = _half(block + 208, there), block + 192 + part * 2
        low = scale * _signed(scales, there).to(tl.float32) * (low - 32).to(tl.float32)
        high = scale * _signed(scales + 1, there).to(tl.float32) * (high - 32).to(tl.float32)
    else:  # F32, F16, BF16
        low, high = _plain(row, run * 32 + lane, cols, kind), _plain(row, run * 32 + lane + 16, cols, kind)
    return low, high


@jit
def _plain(row: tensor, number: tensor, cols: tensor, kind: constexpr) -> tensor:
    there = number < cols
    if kind == 0:
        weight = tl.load(row.to(tl.pointer_type(tl.float32)) + number, mask=there, other=0.0)
    elif kind == 1:
        weight = tl.load(row.to(tl.pointer_type(tl.float16)) + number, mask=there, other=0.0).to(tl.float32)
    else:
        weight = tl.load(row.to(tl.pointer_type(tl.bfloat16)) + number, mask=there, other=0.0).to(tl.float32)
    return weight


@jit
def _byte(at: tensor, there: tensor) -> tensor:
    return tl.load(at, mask=there, other=0).to(tl.int32)


@jit
def _signed(at: tensor, there: tensor) -> tensor:
    return tl.load(at.to(tl.pointer_type(tl.int8)), mask=there, other=0).to(tl.int32)


@jit
def _half(at: tensor, there: tensor) -> tensor:
    return tl.load(at.to(tl.pointer_type(tl.float16)), mask=there, other=0.0).to(tl.float32)


@jit
def _nibbles(at: tensor, there: tensor) -> tensor:
    packed = _byte(at, there)
    return packed & 15, packed >> 4


@jit
def _fives(fifths: tensor, lane: tensor, there: tensor) -> tensor:
    """Numbers of 5 bits: 32 fifth bits, number by number, then the nibbles."""
    low, high = _nibbles(fifths + 4 + lane, there)
    low |= ((_byte(fifths + lane // 8, there) >> (lane % 8)) & 1) << 4
    high |= ((_byte(fifths + 2 + lane // 8, there) >> (lane % 8)) & 1) << 4
    return low, high


@jit
def _k_scales(block: tensor, part: tensor, there: tensor) -> tensor:
    """Scale and minimum of one of the 8 parts of a Q4_K or Q5_K block: 6 bits each, times those of the block."""
    is_late = part >= 4
    own = part % 4
    low, mid = _byte(block + 4 + own, there), _byte(block + 8 + own, there)
    late = _byte(block + 12 + own, there)
    scale = tl.where(is_late, (late & 15) | ((low >> 2) & 0x30), low & 63)
    minimum = tl.where(is_late, (late >> 4) | ((mid >> 2) & 0x30), mid & 63)
    return _half(block, there) * scale.to(tl.float32), _half(block + 2, there) * minimum.to(tl.float32)
