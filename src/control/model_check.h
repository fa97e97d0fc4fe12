/* What keeps a model of a repository from serving, beyond what the repository reports itself: its
 * policy and options, its profile, and what its engine's runtime cannot run.
 *
 * Without `loads` it loads no model, but may open an engine's runtime and digest model files. With
 * it, it loads every version as the server does, and runs a row. It adds findings to the models'.
 */
#ifndef TT_CONTROL_MODEL_CHECK_H
#define TT_CONTROL_MODEL_CHECK_H

#include "control/loader.h"
#include "model/repository/repository.h"

struct tt_model_check_options {
    const char *onnxruntime; /* the library's path; NULL: looked for */
    const char *python;      /* the interpreter; NULL: python3, in PATH */
    bool strict_profile;     /* as struct tt_loader_options has them */
    bool measure_stale;
    bool strict_gpu;
    bool loads;              /* load each version and run a row */
    int64_t max_model_bytes; /* as struct tt_loader_options has it */
};

/* Checks all models of the repository that have no problem yet. Errors: NO_MEMORY, and with `loads`
 * those of the engines' libraries. */
TT_MUST_CHECK enum tt_err tt_model_check(struct tt_repository *repository,
                                         const struct tt_model_check_options *options,
                                         struct tt_error *why);

/* Called before each version is loaded. */
typedef void tt_model_try_fn(void *context, int64_t version);
/* Loads all versions of one model as the server does, and runs a row of each. `config_json`:
 * instead of its config.pbtxt; NULL: as the file says. `out_version`: the last one that was tried.
 * Errors: those of repository and loader. */
TT_MUST_CHECK enum tt_err tt_model_try(const char *repository, const char *name,
                                       const char *config_json,
                                       const struct tt_model_check_options *options,
                                       tt_model_try_fn *trying, void *context, int64_t *out_version,
                                       struct tt_error *why);

#endif
