/* A load in a process of its own, before the server loads the model: a model file that crashes a
 * library, needs too much memory or never ends takes that process down, not the server.
 *
 * The process is the program itself: `tutti models try`. It loads and warms up all versions as the
 * server does, with a limit of memory, and prints the outcome. It ends when the thread that started
 * it ends. A trial that passes leaves nothing behind but a measured profile, which the load then
 * finds. Implemented in load_trial.c. */
#ifndef TT_CONTROL_LOAD_TRIAL_H
#define TT_CONTROL_LOAD_TRIAL_H

#include "base/err.h"
#include "base/threads/flag.h"

#include <stdbool.h>
#include <stdint.h>

struct tt_load_trial {
    const char *program;     /* that is started */
    const char *onnxruntime; /* the library's path; NULL: looked for */
    bool strict_profile, measure_stale, strict_gpu;
    int64_t max_bytes;          /* of memory that the trial may take; 0: no limit */
    int64_t max_ms;             /* the time that it may take */
    const struct tt_flag *stop; /* ends it, once raised */
};

/* Tries the model of that name in `repository`. `config_json`: instead of its config.pbtxt; NULL:
 * as the file says. Blocks. `out_version`: the version at fault, "" if it is not known. Errors:
 * those of the load; INVALID (crashed, with the signal's name; took too long), CANCELLED (`stop`),
 * IO. */
TT_MUST_CHECK enum tt_err tt_load_trial_run(const struct tt_load_trial *self,
                                            const char *repository, const char *name,
                                            const char *config_json, char *out_version,
                                            size_t capacity, struct tt_error *why);

#endif
