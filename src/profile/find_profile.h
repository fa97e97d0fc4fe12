/* The profiles that a model is served with. In this order: those in the file beside the model, if
 * they were measured of this model file, cut and device; those measured at once, if a policy or a
 * deadline needs them; placeholders that carry no information. A profile of this model file from
 * another device is ignored with a warning: machines of a fleet differ. One of another model file
 * is an error, since it was probably forgotten. */
#ifndef TT_PROFILE_FIND_PROFILE_H
#define TT_PROFILE_FIND_PROFILE_H

#include "base/log/log_settings.h"
#include "core/profile.h"
#include "engine/engine.h"
#include "model/repository/repository.h"

struct tt_profile_file;

struct tt_find_profile_options {
    const struct tt_repository_model *model;
    const char *path;             /* the ONNX file */
    const struct tt_cells *cells; /* NULL: a model of one ONNX file */
    const char *stages;           /* its cut (tt_slices_describe); "": whole */
    bool decides;                 /* the policy decides by run times */
    bool needs_profile;           /* the engine cannot run it without one (core/engine_traits.h) */
    bool measure_stale;           /* measure again what is stale; else it is an error */
    bool strict_profile;          /* an error too: a profile of this model from another device */
    bool any_device;              /* a profile of another device is as good: nothing runs here */
    const char *device; /* where the loaded model runs; NULL: on this machine's processor */
    struct tt_engine_model *loaded; /* NULL: not loaded; for tt_find_profile_check() only */
    const char **out_source; /* where it was found: "file", "measured" or "none"; may be NULL */
    void (*say)(void *context, enum tt_log_level level, const char *line);
    void *say_context;
};

/* `*out_steps` is malloc'ed: one owned profile per step of the loaded model; NULL if the steps are
 * not known. Errors: INVALID (the file is wrong, stale, or required and missing), and those of
 * measuring. */
TT_MUST_CHECK enum tt_err tt_find_profile(const struct tt_find_profile_options *options,
                                          struct tt_profile **out_whole,
                                          struct tt_profile ***out_steps, struct tt_error *why);
/* Checks the file as tt_find_profile() does, without the loaded model and its cut. OK: it is valid,
 * or there is none, or it would be measured again. Errors: as above. */
TT_MUST_CHECK enum tt_err tt_find_profile_check(const struct tt_find_profile_options *options,
                                                struct tt_error *why);

/* The model's own profile file, for batches up to `max_rows` (0: as the file says); the caller
 * closes it. NOT_FOUND, INVALID, IO, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_find_profile_open(const struct tt_repository_model *model,
                                               int32_t max_rows, struct tt_profile_file **out_file,
                                               struct tt_error *why);
/* The number of steps that the model's own profile has: 1 if it lists none, or there is no such
 * file. An emulated model has as many. Errors: INVALID, IO, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_find_profile_step_count(const struct tt_repository_model *model,
                                                     int32_t *out_count, struct tt_error *why);

#endif
