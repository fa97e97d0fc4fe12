#include "control/gpu_profile.h"

#include "serve/served_model_state.h"

enum tt_err tt_gpu_profile_none(const struct tt_engine_model *loaded, struct tt_profile **out_whole,
                                struct tt_error *why) {
    int32_t max_batch = loaded->engine->ops->signature(loaded)->max_batch;
    return tt_profile_new_linear(0, 1, max_batch, out_whole, why);
}

static enum tt_err find_on(const struct tt_gpu_profile_options *options,
                           const struct tt_device_streams *streams, struct tt_engine *engine,
                           struct tt_served_model *served, struct tt_error *why) {
    enum tt_err err =
        tt_device_streams_put(streams, engine, options->kind, options->times, served, why);
    if (err)
        return err;
    struct tt_profile *whole = NULL, **steps = NULL;
    options->profiles->loaded = served->engine_model;
    options->profiles->device = tt_async_device_info(streams->device)->name;
    err = tt_find_profile(options->profiles, &whole, &steps, why);
    tt_device_streams_take_back(served);
    if (err)
        return err;
    tt_served_model_set_profile(served, whole, steps);
    return TT_OK;
}

enum tt_err tt_gpu_profile_find(const struct tt_gpu_profile_options *options,
                                struct tt_served_model *served, struct tt_error *why) {
    struct tt_device_streams streams = {0};
    struct tt_engine *engine;
    const struct tt_engine_options one = {.executor_count = 1, .queue_depth = 1};
    enum tt_err err =
        tt_device_streams_open(&streams, options->device, NULL, false, served, &one, &engine, why);
    if (err)
        return err;
    err = find_on(options, &streams, engine, served, why);
    engine->ops->close(engine);
    tt_device_streams_close(&streams);
    return err;
}
