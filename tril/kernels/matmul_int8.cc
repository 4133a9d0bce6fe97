#include "tril/kernels/matmul_int8.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <hwy/targets.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

// gcc 12 takes the "undefined" of its own header for a mistake.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wunknown-warning-option"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#define TRIL_AMX __attribute__((target("amx-tile,amx-int8,avx512f,avx512bw,avx512vl,avx512dq,f16c")))

namespace tril {
namespace {

constexpr int64_t kBlock = 32;
constexpr int64_t kTile = 16;         // rows and columns of a product of tiles
constexpr int64_t kPanelBlocks = 64;  // of W that are unpacked at one time
constexpr int64_t kChunkRows = 512, kChunkColumns = 64;

// x (m, k), its rows filled up to whole tiles with zeros.
struct ByteRows {
  int64_t blocks;
  int8_t* numbers;  // (rows, k)
  float* scales;    // (rows / 16, blocks, 16)
  float* sums;      // likewise: scale times the sum of the numbers
};

ByteRows rows_in(float* workspace, int64_t m, int64_t k) {
  const int64_t rows = round_up(m, kTile), blocks = k / kBlock;
  auto* const numbers = reinterpret_cast<int8_t*>(workspace);
  float* const scales = workspace + rows * k / 4;
  return {.blocks = blocks, .numbers = numbers, .scales = scales, .sums = scales + rows * blocks};
}

// 16 rows of W, kPanelBlocks blocks: four elements of row j that follow each other are together, as the
// registers want them.
struct Panel {
  alignas(64) int32_t numbers[kPanelBlocks][8][kTile];
  alignas(64) float scales[kPanelBlocks][kTile];
  alignas(64) float leasts[kPanelBlocks][kTile];
};

struct TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// Registers: products 0 and 1, x 4 and 5, W 6 and 7.
TRIL_AMX void configure_tiles() {
  TileConfig config;
  for (int t = 0; t < 8; ++t) {
    config.row_bytes[t] = t == 4 || t == 5 ? kBlock : 4 * kTile;
    config.rows[t] = t < 6 ? kTile : kBlock / 4;
  }
  _tile_loadconfig(&config);
}

// One row of x, or zeros without one.
TRIL_AMX void to_bytes(const float* x, int64_t row, const ByteRows& out) {
  int8_t* numbers = out.numbers + row * out.blocks * kBlock;
  for (int64_t b = 0; b < out.blocks; ++b, numbers += kBlock) {
    const __m512 zero = _mm512_setzero_ps();
    const __m512 low = x != nullptr ? _mm512_loadu_ps(x + b * kBlock) : zero;
    const __m512 high = x != nullptr ? _mm512_loadu_ps(x + b * kBlock + 16) : zero;
    const float most = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(low), _mm512_abs_ps(high)));
    // NaN and infinity make the scale NaN, so that they show.
    const float poison =
        _mm512_reduce_add_ps(_mm512_add_ps(_mm512_mul_ps(low, zero), _mm512_mul_ps(high, zero)));
    const __m512 inverse = _mm512_set1_ps(most > 1e-30f ? 127 / most : 0);
    const __m512i a = _mm512_cvtps_epi32(_mm512_mul_ps(low, inverse));
    const __m512i c = _mm512_cvtps_epi32(_mm512_mul_ps(high, inverse));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(numbers), _mm512_cvtsepi32_epi8(a));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(numbers + 16), _mm512_cvtsepi32_epi8(c));
    const float scale = most / 127 + poison;
    const int64_t at = (row / kTile * out.blocks + b) * kTile + row % kTile;
    out.scales[at] = scale;
    out.sums[at] = scale * static_cast<float>(_mm512_reduce_add_epi32(_mm512_add_epi32(a, c)));
  }
}

// Rows [n0, n0 + 16) of W, of which p.n exist; blocks [b0, b0 + blocks).
TRIL_AMX void unpack(const Product& p, int64_t n0, int64_t b0, int64_t blocks, Panel& panel) {
  const DType dtype = p.stored.dtype;
  const int64_t rows = std::min(kTile, p.n - n0), bytes = dtype_info(dtype).block_bytes;
  const int64_t head = dtype == DType::kQ4_1 ? 4 : 2;
  const auto mask = static_cast<__mmask16>((1u << rows) - 1);
  const __m512i offsets =
      _mm512_mullo_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                         _mm512_set1_epi32(static_cast<int>(p.stored.stride)));
  const auto gather = [&](const std::byte* at) TRIL_AMX {
    return _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), mask, offsets, at, 1);
  };
  const auto float_of = [](__m512i words) TRIL_AMX { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words)); };
  const __m512i low_nibbles = _mm512_set1_epi8(15);
  for (int64_t b = 0; b < blocks; ++b) {
    const std::byte* const block = p.stored.at(n0, 0) + (b0 + b) * bytes;
    auto* const out = reinterpret_cast<__m512i*>(panel.numbers[b]);
    const __m512i scales = gather(block);
    _mm512_store_ps(panel.scales[b], float_of(scales));
    if (dtype == DType::kQ8_0) {
      for (int i = 0; i < 8; ++i) _mm512_store_si512(out + i, gather(block + head + 4 * i));
      continue;
    }
    const bool with_least = dtype == DType::kQ4_1;
    if (with_least) _mm512_store_ps(panel.leasts[b], float_of(_mm512_srli_epi32(scales, 16)));
    const __m512i zero = _mm512_set1_epi8(with_least ? 0 : 8);
    for (int i = 0; i < 4; ++i) {
      const __m512i both = gather(block + head + 4 * i);
      const __m512i low = _mm512_and_si512(both, low_nibbles);
      const __m512i high = _mm512_and_si512(_mm512_srli_epi32(both, 4), low_nibbles);
      _mm512_store_si512(out + i, _mm512_sub_epi8(low, zero));
      _mm512_store_si512(out + 4 + i, _mm512_sub_epi8(high, zero));
    }
  }
}

// sums = x W^T of one block. Numbers of registers are part of the instructions' names.
TRIL_AMX __attribute__((always_inline)) inline void multiply_even(const int8_t* x, int64_t stride,
                                                                  const int32_t* w, int32_t* sums) {
  _tile_zero(0);
  _tile_loadd(4, x, stride);
  _tile_loadd(6, w, 4 * kTile);
  _tile_dpbssd(0, 4, 6);
  _tile_stored(0, sums, 4 * kTile);
}
TRIL_AMX __attribute__((always_inline)) inline void multiply_odd(const int8_t* x, int64_t stride,
                                                                 const int32_t* w, int32_t* sums) {
  _tile_zero(1);
  _tile_loadd(5, x, stride);
  _tile_loadd(7, w, 4 * kTile);
  _tile_dpbssd(1, 5, 7);
  _tile_stored(1, sums, 4 * kTile);
}

// acc_ij += sums_ij s_i d_j [+ s_i sum_i least_j]
template <bool kLeast>
TRIL_AMX __attribute__((always_inline)) inline void add_block(const int32_t (&sums)[kTile][kTile],
                                                              const Panel& panel, int64_t b,
                                                              const float* x_scales, const float* x_sums,
                                                              __m512 (&acc)[kTile]) {
  const __m512 scales = _mm512_load_ps(panel.scales[b]), leasts = _mm512_load_ps(panel.leasts[b]);
#pragma GCC unroll 16
  for (int i = 0; i < kTile; ++i) {
    const __m512 numbers = _mm512_cvtepi32_ps(_mm512_load_si512(sums[i]));
    acc[i] = _mm512_fmadd_ps(numbers, _mm512_mul_ps(scales, _mm512_set1_ps(x_scales[i])), acc[i]);
    if constexpr (kLeast) acc[i] = _mm512_fmadd_ps(leasts, _mm512_set1_ps(x_sums[i]), acc[i]);
  }
}

// C, 16 rows from `row` and 16 columns from n0: = or += the product over the panel's blocks.
template <bool kLeast>
TRIL_AMX void multiply_tile(const Product& p, const ByteRows& x, int64_t row, int64_t n0, int64_t b0,
                            int64_t blocks, const Panel& panel) {
  alignas(64) int32_t sums[2][kTile][kTile];
  const int64_t stride = x.blocks * kBlock;
  __m512 acc[kTile];
  const auto rows = static_cast<int>(std::min(kTile, p.m - row));
  const auto mask = static_cast<__mmask16>((1u << std::min(kTile, p.n - n0)) - 1);
  const bool accumulate = p.accumulate || b0 > 0;
  float* const c = p.c + row * p.ldc + n0;
#pragma GCC unroll 16
  for (int i = 0; i < kTile; ++i)
    acc[i] = accumulate && i < rows ? _mm512_maskz_loadu_ps(mask, c + i * p.ldc) : _mm512_setzero_ps();
  const int8_t* const numbers = x.numbers + row * stride + b0 * kBlock;
  const float* const scales = x.scales + (row / kTile * x.blocks + b0) * kTile;
  const float* const x_sums = x.sums + (row / kTile * x.blocks + b0) * kTile;
  // A block is multiplied while the one before is added.
  multiply_even(numbers, stride, panel.numbers[0][0], sums[0][0]);
  for (int64_t b = 0; b < blocks; b += 2) {
    if (b + 1 < blocks) multiply_odd(numbers + (b + 1) * kBlock, stride, panel.numbers[b + 1][0], sums[1][0]);
    add_block<kLeast>(sums[0], panel, b, scales + b * kTile, x_sums + b * kTile, acc);
    if (b + 2 < blocks)
      multiply_even(numbers + (b + 2) * kBlock, stride, panel.numbers[b + 2][0], sums[0][0]);
    if (b + 1 < blocks)
      add_block<kLeast>(sums[1], panel, b + 1, scales + (b + 1) * kTile, x_sums + (b + 1) * kTile, acc);
  }
#pragma GCC unroll 16
  for (int i = 0; i < kTile; ++i)
    if (i < rows) _mm512_mask_storeu_ps(c + i * p.ldc, mask, acc[i]);
}

TRIL_AMX void multiply_columns(const Product& p, const ByteRows& x, int64_t m0, int64_t rows, int64_t n0,
                               int64_t columns) {
  thread_local Panel panel;
  configure_tiles();
  for (int64_t n = n0; n < n0 + columns; n += kTile) {
    for (int64_t b0 = 0; b0 < x.blocks; b0 += kPanelBlocks) {
      const int64_t blocks = std::min(kPanelBlocks, x.blocks - b0);
      unpack(p, n, b0, blocks, panel);
      for (int64_t row = m0; row < m0 + rows; row += kTile) {
        if (p.stored.dtype == DType::kQ4_1)
          multiply_tile<true>(p, x, row, n, b0, blocks, panel);
        else
          multiply_tile<false>(p, x, row, n, b0, blocks, panel);
      }
    }
  }
  _tile_release();
}

// The processor has AMX for bytes and AVX-512, the system saves both, and lets this process use them.
bool find_int8_products() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c & bit_OSXSAVE) == 0) return false;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  constexpr unsigned kTiles = 1u << 24, kBytes = 1u << 25;
  if ((d & kTiles) == 0 || (d & kBytes) == 0) return false;
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr unsigned kAvx512AndTiles = 0xE6 | 3u << 17;
  if ((low & kAvx512AndTiles) != kAvx512AndTiles) return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

bool has_int8_products() {
  static const bool found = find_int8_products();
  return found && (hwy::SupportedTargets() & HWY_AVX3) != 0;
}

int64_t int8_workspace(int64_t m, int64_t k) {
  const int64_t rows = round_up(m, kTile);
  return checked_add(checked_multiply(rows, k / 4), checked_multiply(2 * rows, k / kBlock));
}

void matmul_int8(Executor& executor, const Product& p, float* workspace, Epilogue epilogue) {
  const ByteRows x = rows_in(workspace, p.m, p.k);
  parallel_for(executor, round_up(p.m, kTile), kTile, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) to_bytes(i < p.m ? p.a + i * p.lda : nullptr, i, x);
  });
  const int64_t across = divide_up(p.n, kChunkColumns);
  executor.run(across * divide_up(p.m, kChunkRows), [&](int64_t chunk, int) {
    const int64_t m0 = chunk / across * kChunkRows, n0 = chunk % across * kChunkColumns;
    const int64_t rows = std::min(kChunkRows, p.m - m0), columns = std::min(kChunkColumns, p.n - n0);
    multiply_columns(p, x, m0, rows, n0, columns);
    if (epilogue) epilogue(m0, rows, n0, columns);
  });
}

}  // namespace tril

#else

namespace tril {

bool has_int8_products() { return false; }
int64_t int8_workspace(int64_t, int64_t) { return 0; }
void matmul_int8(Executor&, const Product&, float*, Epilogue) {}

}  // namespace tril

#endif
