"""What the Triton kernels that score pages share: queries in codes, sums, exponentials, as in page_scores.py."""

from __future__ import annotations

from octavo.engine.kernels.triton_jit import constexpr, jit, tensor, tl


@jit
def load_query(query: tensor, pair: tensor, is_pair: tensor, dim: constexpr, scale: tensor) -> tensor:
    """Both halves of a query, codes per number, and the scaled score of a code."""
    first = tl.load(query + pair, mask=is_pair, other=0.0)
    second = tl.load(query + dim // 2 + pair, mask=is_pair, other=0.0)
    reach = tl.max(tl.sqrt_rn(first * first + second * second), 0)
    most = tl.zeros_like(reach) + 127.0
    factor = tl.where(reach > 0, tl.div_rn(most, tl.where(reach > 0, reach, 1.0)), 0.0)
    return first, second, factor, tl.div_rn(reach, most) * scale


@jit
def query_codes(x: tensor, factor: tensor) -> tensor:
    """Whole numbers from -127 to 127, rounded to even as torch rounds them."""
    steps = (x * factor + 12582912.0) - 12582912.0
    return tl.minimum(tl.maximum(steps, -127.0), 127.0).to(tl.int32)


@jit
def load_codes(codes: tensor, there: tensor) -> tensor:
    return tl.load(codes, mask=there, other=0).to(tl.int32)


@jit
def pairwise(x: tensor, lanes: constexpr) -> tensor:
    """The sum of `x` [16]: the first half plus the second, and again."""
    for power in tl.static_range(3):
        first, second = tl.split(tl.trans(tl.reshape(x, (2, lanes >> (power + 1)))))
        x = first + second
    return tl.sum(x, 0)  # of the last two


@jit
def exponential(x: tensor) -> tensor:
    """e^x as `select.py` computes it, operation by operation."""
    x = tl.minimum(tl.maximum(x, -87.0), 80.0)
    n = (x * 1.44269504088896341 + 12582912.0) - 12582912.0
    r = (x - n * 0.693359375) + n * 2.12194440e-4
    p = tl.zeros_like(r) + 1.9875691500e-4
    p = p * r + 1.3981999507e-3
    p = p * r + 8.3334519073e-3
    p = p * r + 4.1665795894e-2
    p = p * r + 1.6666665459e-1
    p = p * r + 5.0000001201e-1
    power = ((n.to(tl.int32) + 127) << 23).to(tl.float32, bitcast=True)
    return (p * (r * r) + (r + 1.0)) * power
