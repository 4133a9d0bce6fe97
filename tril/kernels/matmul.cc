#include "tril/kernels/matmul.h"

#include <algorithm>
#include <cmath>

#include "tril/kernels/matmul_engine.h"
#include "tril/kernels/matmul_int8.h"
#include "tril/kernels/matmul_quantized.h"
#include "tril/kernels/partial_sums.h"

namespace tril {
namespace {

// Below this many multiply-adds (a few microseconds) a product is one block, run by the caller: handing work
// to other threads would cost more than they save. No block or chunk is smaller.
constexpr int64_t kLeastWork = int64_t{1} << 17;
// Below this many oneDNN's own overhead shows.
constexpr int64_t kLeastWorkOfOnednn = int64_t{1} << 20;
// Two tasks for each of 16 threads.
constexpr int64_t kEnoughTasks = 32;
// Smaller blocks copy their operands more often than they use them; K is cut first.
constexpr int64_t kGoodArea = 192 * 384;
// Partial sums cost less than 5 % from this depth on; small ones stay in the cache and may be shallower.
constexpr int64_t kLeastDepth = 512;
constexpr int64_t kLeastDepthOfSmall = 192;
constexpr int64_t kSmallArea = 128 * 144;
// Few rows read B once however N is cut.
constexpr int64_t kFewRowsColumns = 24;

// How C is cut into blocks, and K into chunks. Depends on the shape alone.
struct Cut {
  int64_t rows, columns, depth;  // of one block
  int64_t across, down, chunks;  // blocks in a row of C, in a column of C, along K
  int64_t blocks() const { return across * down; }
};

// Sizes that only a dry run sees may have products beyond 64 bits.
double volume(int64_t m, int64_t n, int64_t k = 1) {
  return static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

// Reading B once takes as long as about 16 multiply-adds with each of its elements.
int64_t tasks_wanted(int64_t m, int64_t n, int64_t k) {
  const double tasks = volume(std::max<int64_t>(m, 16), n, k) / kLeastWork;
  return static_cast<int64_t>(std::clamp<double>(tasks, 1, kEnoughTasks));
}

int64_t depth_of_chunks(int64_t m, int64_t n, int64_t k, DType stored) {
  if (stored != DType::kF32) return k;  // decoding and prompts have columns enough
  const double good_blocks = std::min<double>(std::ceil(volume(m, n) / kGoodArea), kEnoughTasks);
  const int64_t blocks = m <= kFewRows ? divide_up(n, kFewRowsColumns) : static_cast<int64_t>(good_blocks);
  const int64_t least_depth = volume(m, n) <= kSmallArea ? kLeastDepthOfSmall : kLeastDepth;
  const int64_t chunks = std::min(tasks_wanted(m, n, k) / blocks, k / least_depth);
  return chunks <= 1 ? k : round_up(divide_up(k, chunks), 16);
}

// Into how many parts of at least `least` a side is cut: as few as `most` allows, or as are wanted.
int64_t parts_of(int64_t size, int64_t most, int64_t least, int64_t wanted) {
  return std::max(divide_up(size, most), std::min(wanted, size / least));
}

// One side of C is cut first, the other only where that does not give enough blocks.
Cut cut_product(int64_t m, int64_t n, int64_t k, bool tall, DType stored) {
  Cut cut{};
  cut.depth = depth_of_chunks(m, n, k, stored);
  cut.chunks = divide_up(k, cut.depth);
  const int64_t wanted = divide_up(tasks_wanted(m, n, k), cut.chunks);
  const int64_t least_columns = m <= kFewRows ? kFewRowsColumns : 96;
  int64_t down = 1, across = 1;
  if (tall) {
    across = parts_of(n, 192, least_columns, divide_up(wanted, divide_up(m, 512)));
    down = parts_of(m, 512, 128, divide_up(wanted, across));
  } else {
    down = parts_of(m, 512, 96, divide_up(wanted, divide_up(n, 384)));
    across = parts_of(n, 384, 192, divide_up(wanted, down));
  }
  cut.rows = std::min(m, round_up(divide_up(m, down), 8));
  cut.columns = std::min(n, round_up(divide_up(n, across), m <= kFewRows ? 8 : 16));
  cut.down = divide_up(m, cut.rows);
  cut.across = divide_up(n, cut.columns);
  return cut;
}

struct Engine {
  void (*multiply)(const Product& block);
  bool tall;  // which blocks suit it
};

// Measured on the products of training steps, with AVX-512 and with AVX2: tiles were faster for a transposed
// B and for few columns, oneDNN by up to 8 % for the others. But where rows are a multiple of 2 KiB apart its
// AVX2 kernels fell to half their speed on blocks.
// Tiles copy B for each block of rows, so their blocks are tall; but oneDNN, and the copies of a transposed
// A, want wide ones: the wrong form costs 5-10 %.
Engine choose_engine(const Product& p) {
  const bool turned_a = p.transpose_a == Transpose::kYes, turned_b = p.transpose_b == Transpose::kYes;
  if (!turned_a && (turned_b || p.stored) && p.m <= kFewRows) return {matmul_few_rows, true};
  if (p.stored) return {matmul_tiles, true};
#ifdef TRIL_ONEDNN
  const bool suits_tiles = !turned_a && (turned_b || p.n <= 80);
  const bool colliding = p.lda % 512 == 0 || p.ldb % 512 == 0;
  if (!suits_tiles && !colliding && volume(p.m, p.n, p.k) > kLeastWorkOfOnednn) return {matmul_onednn, false};
#endif
  return {matmul_tiles, !turned_a};
}

// Rows [m0, m0 + rows), columns [n0, n0 + columns) of C, summed over k in [k0, k0 + depth).
Product block_of(const Product& p, int64_t m0, int64_t rows, int64_t n0, int64_t columns, int64_t k0,
                 int64_t depth) {
  Product block = p;
  block.m = rows;
  block.n = columns;
  block.k = depth;
  block.a += p.transpose_a == Transpose::kNo ? m0 * p.lda + k0 : k0 * p.lda + m0;
  if (p.stored)
    block.stored.data = p.stored.at(n0, k0);
  else
    block.b += p.transpose_b == Transpose::kNo ? k0 * p.ldb + n0 : n0 * p.ldb + k0;
  block.c += m0 * p.ldc + n0;
  return block;
}

// C += partial_1 + partial_2 + ..., in this order.
void add_partials(Executor& executor, const Product& p, int64_t partials, const float* workspace,
                  Epilogue epilogue) {
  const int64_t grain = std::max<int64_t>(1, (int64_t{1} << 14) / p.n);
  parallel_for(executor, p.m, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i)
      add_partial_sums(partials, p.m * p.n, p.n, workspace + i * p.n, p.c + i * p.ldc);
    if (epilogue) epilogue(begin, end - begin, 0, p.n);
  });
}

}  // namespace

int64_t matmul_workspace(int64_t m, int64_t n, int64_t k, DType stored) {
  if (m <= 0 || n <= 0 || k <= 0) return 0;
  if (is_quantized(stored) && m <= kFewQuantizedRows) return quantized_rows_workspace(m, k);
  if (is_quantized(stored) && has_int8_products()) return int8_workspace(m, k);
  return checked_multiply(checked_multiply(divide_up(k, depth_of_chunks(m, n, k, stored)) - 1, m), n);
}

void matmul(Executor& executor, const Product& p, float* workspace, Epilogue epilogue) {
  if (p.m <= 0 || p.n <= 0) return;
  if (is_quantized(p.stored.dtype) && p.m <= kFewQuantizedRows) {
    matmul_quantized(executor, p, workspace, epilogue);
    return;
  }
  if (is_quantized(p.stored.dtype) && has_int8_products()) {
    matmul_int8(executor, p, workspace, epilogue);
    return;
  }
  const Engine engine = choose_engine(p);
  const Cut cut = cut_product(p.m, p.n, std::max<int64_t>(p.k, 1), engine.tall, p.stored.dtype);
  executor.run(cut.blocks() * cut.chunks, [&](int64_t chunk, int) {
    const int64_t part = chunk / cut.blocks(), block = chunk % cut.blocks();
    const int64_t m0 = block / cut.across * cut.rows, n0 = block % cut.across * cut.columns;
    const int64_t rows = std::min(cut.rows, p.m - m0), columns = std::min(cut.columns, p.n - n0);
    const int64_t k0 = part * cut.depth;
    if (p.k <= 0) {
      for (int64_t i = m0; i < m0 + rows && !p.accumulate; ++i)
        std::fill_n(p.c + i * p.ldc + n0, columns, 0.0f);
    } else {
      Product target = p;
      if (part > 0) {
        target.c = workspace + (part - 1) * p.m * p.n;
        target.ldc = p.n;
        target.accumulate = false;
      }
      engine.multiply(block_of(target, m0, rows, n0, columns, k0, std::min(cut.depth, p.k - k0)));
    }
    if (epilogue && cut.chunks == 1) epilogue(m0, rows, n0, columns);
  });
  if (cut.chunks > 1) add_partials(executor, p, cut.chunks - 1, workspace, epilogue);
}

const char* matmul_engine() {
#ifdef TRIL_ONEDNN
  return onednn_version();
#else
  return "Highway";
#endif
}

}  // namespace tril
