/* The memory that a version of a model needs, judged from its file before it is loaded, against the
 * server's limits. Versions without one ONNX file (emulated models, models of cells) are not
 * judged. Implemented in model_memory.c. */
#ifndef TT_CONTROL_MODEL_MEMORY_H
#define TT_CONTROL_MODEL_MEMORY_H

#include "model/repository/repository.h"

struct tt_model_memory_limits {
    int64_t model_bytes;  /* of one version; 0: no limit */
    int64_t models_bytes; /* of all versions together; 0: no limit */
    int64_t used_bytes;   /* of those that are loaded */
};

/* `out_bytes`: the estimate; 0: not known. Errors: INVALID (above a limit; the message names the
 * node or tensor), NO_MEMORY, NOT_FOUND, IO. */
TT_MUST_CHECK enum tt_err tt_model_memory_check(const struct tt_repository_model *model,
                                                const struct tt_repository_version *version,
                                                const struct tt_model_memory_limits *limits,
                                                int64_t *out_bytes, struct tt_error *why);

#endif
