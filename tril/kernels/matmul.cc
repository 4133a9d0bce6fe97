#include "tril/kernels/matmul.h"

#include <algorithm>

#include "tril/kernels/matmul_engine.h"

namespace tril {
namespace {

// Below this many multiply-adds (tens of microseconds) a product is one block, run by the caller: waking
// other threads would cost more than they save.
constexpr int64_t kTinyWork = int64_t{1} << 20;
// Blocks of C: large enough that copying their operands costs little, small enough for the second-level
// cache.
constexpr int64_t kBlockRows = 512;
constexpr int64_t kBlockColumns = 384;
constexpr int64_t kLeastRows = 64;
constexpr int64_t kLeastColumns = 96;
constexpr int64_t kLeastDepth = 512;
// Two blocks for each of 16 threads, where that leaves them worth a wake-up.
constexpr int64_t kEnoughBlocks = 32;

// How C is cut into blocks, and K into chunks. Depends on the shape alone.
struct Cut {
  int64_t rows, columns, depth;  // of one block
  int64_t across, down, chunks;  // blocks in a row of C, in a column of C, along K
  int64_t blocks() const { return across * down; }
};

// The cut into equal parts of at most `most`, each a multiple of `unit`.
int64_t equal_parts(int64_t size, int64_t most, int64_t unit) {
  return round_up(divide_up(size, divide_up(size, most)), unit);
}

Cut cut_product(int64_t m, int64_t n, int64_t k) {
  if (m * n * k <= kTinyWork) return {m, n, k, 1, 1, 1};
  int64_t rows = std::min(m, kBlockRows), columns = std::min(n, kBlockColumns);
  const auto blocks = [&] { return divide_up(m, rows) * divide_up(n, columns); };
  while (blocks() < kEnoughBlocks && rows * columns * k >= 2 * kTinyWork) {
    if (rows >= columns && rows >= 2 * kLeastRows) {
      rows = divide_up(rows, 2);
    } else if (columns >= 2 * kLeastColumns) {
      columns = divide_up(columns, 2);
    } else {
      break;
    }
  }
  Cut cut{};
  cut.rows = equal_parts(m, rows, 8);
  cut.columns = equal_parts(n, columns, 16);
  cut.down = divide_up(m, cut.rows);
  cut.across = divide_up(n, cut.columns);
  const int64_t most_chunks = std::min(k / kLeastDepth, cut.rows * cut.columns * k / kTinyWork);
  const int64_t chunks =
      std::clamp<int64_t>(kEnoughBlocks / cut.blocks(), 1, std::max<int64_t>(most_chunks, 1));
  cut.depth = equal_parts(k, divide_up(k, chunks), 16);
  cut.chunks = divide_up(k, cut.depth);
  return cut;
}

using Engine = void (*)(const Product&);

Engine choose_engine(const Product& p) {
  if (p.m <= kFewRows && p.transpose_a == Transpose::kNo && p.transpose_b == Transpose::kYes)
    return matmul_few_rows;
#ifdef TRIL_ONEDNN
  if (p.m * p.n * p.k > kTinyWork) return matmul_onednn;
#endif
  return matmul_tiles;
}

// Rows [m0, m0 + rows), columns [n0, n0 + columns) of C, summed over k in [k0, k0 + depth).
Product block_of(const Product& p, int64_t m0, int64_t rows, int64_t n0, int64_t columns, int64_t k0,
                 int64_t depth) {
  Product block = p;
  block.m = rows;
  block.n = columns;
  block.k = depth;
  block.a += p.transpose_a == Transpose::kNo ? m0 * p.lda + k0 : k0 * p.lda + m0;
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
      matmul_add_partials(p.n, partials, workspace + i * p.n, p.m * p.n, p.c + i * p.ldc);
    if (epilogue) epilogue(begin, end - begin, 0, p.n);
  });
}

}  // namespace

int64_t matmul_workspace(int64_t m, int64_t n, int64_t k) {
  if (m <= 0 || n <= 0 || k <= 0) return 0;
  return (cut_product(m, n, k).chunks - 1) * m * n;
}

void matmul(Executor& executor, const Product& p, float* workspace, Epilogue epilogue) {
  if (p.m <= 0 || p.n <= 0) return;
  const Cut cut = cut_product(p.m, p.n, std::max<int64_t>(p.k, 1));
  const Engine engine = choose_engine(p);
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
      engine(block_of(target, m0, rows, n0, columns, k0, std::min(cut.depth, p.k - k0)));
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
