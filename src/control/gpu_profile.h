/* The profile of a model that a GPU runs. The model is loaded by its backend's engine on the
 * processor, whose times say nothing of the GPU. So the model goes to a stream of its own on the
 * GPU for as long as it takes to find its profile (profile/find_profile.h): in the file, if that
 * was written by hand or measured on a GPU of this name, or else by measuring there. A model that
 * does not run on the GPU is found out here, before it is placed. Implemented in gpu_profile.c. */
#ifndef TT_CONTROL_GPU_PROFILE_H
#define TT_CONTROL_GPU_PROFILE_H

#include "control/device_streams.h"
#include "profile/find_profile.h"
#include "serve/served_model.h"

struct tt_gpu_profile_options {
    const struct tt_model_device *device;
    const struct tt_engine_kind *kind;
    const struct tt_device_streams_times *times;
    struct tt_find_profile_options *profiles; /* `loaded` and `device` are set here */
};

/* What a model has until _find is called. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_gpu_profile_none(const struct tt_engine_model *loaded,
                                              struct tt_profile **out_whole, struct tt_error *why);
/* Replaces the profiles of `served`, which was loaded and not placed. Errors: those of
 * tt_device_streams_open and _put, and of tt_find_profile. */
TT_MUST_CHECK enum tt_err tt_gpu_profile_find(const struct tt_gpu_profile_options *options,
                                              struct tt_served_model *served, struct tt_error *why);

#endif
