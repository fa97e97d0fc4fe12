/* The profiles that a model is served by: those beside it, if they are of this file, cut and
 * device; else, where somebody will decide by them, measured now; else ones that say nothing. */
#ifndef TT_PROFILE_FIND_PROFILE_H
#define TT_PROFILE_FIND_PROFILE_H

#include "base/log_settings.h"
#include "core/profile.h"
#include "engine/engine.h"
#include "model/repository/repository.h"

struct tt_find_profile_options {
    const struct tt_repository_model *model;
    const char *path;             /* of the ONNX file */
    const struct tt_cells *cells; /* NULL: a model of one ONNX file */
    const char *stages;           /* how it is cut (tt_slices_describe); "": not at all */
    bool decides;                 /* does the policy decide by run times? */
    bool needs_profile;           /* the engine cannot run it without one (core/engine_traits.h) */
    bool measure_stale;           /* measure anew what is stale; else it is refused */
    struct tt_engine_model *loaded;
    void (*say)(void *context, enum tt_log_level level, const char *line);
    void *say_context;
};

/* `*out_steps`: malloc'ed, one per step of the loaded model, owned profiles; NULL where nothing is
 * known of the steps. Errors: INVALID (the file is wrong, or stale, or missing where there must be
 * one: the sentence says it), and those of measuring. */
TT_MUST_CHECK enum tt_err tt_find_profile(const struct tt_find_profile_options *options,
                                          struct tt_profile **out_whole,
                                          struct tt_profile ***out_steps, struct tt_error *why);

#endif
