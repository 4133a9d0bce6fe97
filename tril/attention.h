// Attention alone, for programs that have layers and training of their own: link tril::attention, which needs
// neither oneDNN nor the rest of tril. examples/attention.cc is a complete program.
//
//   tril::ThreadPool pool(tril::available_threads());  // or an Executor of your own
//   std::vector<float> workspace(tril::attention_workspace(shape, pool.threads()));  // once
//   tril::attention_forward(pool, shape, options, query, key, value, out, max, sum, workspace.data());
//   tril::attention_backward(pool, shape, options, query, key, value, out, max, sum, dout, dquery, dkey,
//                            dvalue, workspace.data());
//
// Every array is the caller's, described by a pointer and strides. The calls allocate nothing.
#pragma once

#include "tril/base/error.h"     // Error: what impossible sizes throw
#include "tril/base/parallel.h"  // Executor, SerialExecutor, ThreadPool, available_threads
#include "tril/kernels/attention.h"
