// What this machine can do, measured.
#pragma once

#include <string>

#include "tril/base/parallel.h"

namespace tril {

// The instruction set that Highway's run-time dispatch chose: "AVX3", "AVX2", "SSE2", "NEON", "EMU128", ...
std::string instruction_set();
// As the operating system names the processor, or "unknown".
std::string processor_name();

// Peak of fused multiply-adds over all threads of the executor, GFLOP/s; best of several short runs, about
// `seconds` in all.
double measure_fma_peak_gflops(Executor& executor, double seconds = 0.1);
// Reading memory much larger than the caches, GB/s.
double measure_read_bandwidth(Executor& executor, double seconds = 0.2);
// A square f32 product of this size, GFLOP/s.
double measure_matmul_gflops(Executor& executor, int64_t size = 1024, double seconds = 0.2);

}  // namespace tril
