// The one file that knows oneDNN.
#include <dnnl.h>

#include <string>

#include "tril/kernels/matmul_engine.h"

// Of the OpenMP runtime that oneDNN was built with. Declared here, so that no compiler needs an <omp.h> of
// its own.
extern "C" void omp_set_num_threads(int threads);
extern "C" int omp_get_max_threads();

namespace tril {

namespace {

// oneDNN starts an OpenMP team in every thread that calls it, a fresh thread's team having all processors,
// and its bits depend on the size of the team. The caller's own setting is given back.
class OneOpenMpThread {
 public:
  OneOpenMpThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneOpenMpThread() { omp_set_num_threads(before_); }
  OneOpenMpThread(const OneOpenMpThread&) = delete;
  OneOpenMpThread& operator=(const OneOpenMpThread&) = delete;

 private:
  int before_;
};

}  // namespace

void matmul_onednn(const Product& p) {
  const OneOpenMpThread one;
  const char transpose_a = p.transpose_a == Transpose::kYes ? 'T' : 'N';
  const char transpose_b = p.transpose_b == Transpose::kYes ? 'T' : 'N';
  const dnnl_status_t status = dnnl_sgemm(transpose_a, transpose_b, p.m, p.n, p.k, 1.0f, p.a, p.lda, p.b,
                                          p.ldb, p.accumulate ? 1.0f : 0.0f, p.c, p.ldc);
  if (status != dnnl_success) matmul_tiles(p);  // it had no memory for its copies
}

const char* onednn_version() {
  static const std::string version = [] {
    const dnnl_version_t* v = dnnl_version();
    return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." +
           std::to_string(v->patch);
  }();
  return version.c_str();
}

}  // namespace tril
