/* `tutti models try`: loads one model in this process and reports the outcome, for a server that
 * does not want to do so itself yet (control/load_trial.h). Implemented in models_try.c. */
#ifndef TT_CMD_MODELS_TRY_H
#define TT_CMD_MODELS_TRY_H

#include "control/model_check.h"

struct tt_models_try {
    const char *repository, *model;
    bool reads_config; /* JSON on standard input, instead of its config.pbtxt */
    int64_t max_bytes; /* of memory besides what the program has; 0: no limit */
    int32_t parent;    /* the process whose end ends this one; 0: none */
    struct tt_model_check_options check;
};

/* Prints a line of JSON per version, `{"version"}`, before it is tried, and at last the outcome:
 * `{"error", "version", "reason"}`, error 0 if all versions can be served. Returns the exit code.
 */
int tt_models_try_run(const struct tt_models_try *options);

#endif
