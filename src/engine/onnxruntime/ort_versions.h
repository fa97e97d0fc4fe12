/* Which versions of the ONNX format the loaded library runs: it is asked with a graph of one node,
 * so that no table of versions can go out of date. */
#ifndef TT_ENGINE_ONNXRUNTIME_ORT_VERSIONS_H
#define TT_ENGINE_ONNXRUNTIME_ORT_VERSIONS_H

#include "base/err.h"

#include <stdint.h>

/* The `check_versions` of engine/engine_kind.h; `shared` is the library. */
enum tt_err tt_ort_check_versions(const void *shared, int64_t ir_version, int64_t opset,
                                  struct tt_error *why);

#endif
