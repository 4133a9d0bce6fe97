// Everything of the library in one include. Attention alone: tril/attention.h.
#pragma once

#include "tril/data/documents.h"
#include "tril/data/sampler.h"
#include "tril/data/stories.h"
#include "tril/generate/generate.h"
#include "tril/interop/model_folder.h"
#include "tril/nn/session.h"
#include "tril/report/attention_report.h"
#include "tril/text/tokenizer.h"
#include "tril/train/trainer.h"
