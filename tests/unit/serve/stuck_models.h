/* Served models on the engine of stuck_engine.h. Include cmocka before it. All functions are
 * inline; there is no .c file. */
#ifndef STUCK_MODELS_H
#define STUCK_MODELS_H

#include "serve/serving.h"
#include "unit/serve/stuck_engine.h"

/* x [-1,4] and m [-1,2] to y and z, copies. */
static const struct tt_signature stuck_tensors = {
    .batched = true,
    .max_batch = 8,
    .input_count = 2,
    .output_count = 2,
    .inputs = {{"x", TT_DTYPE_INT32, {2, {-1, 4}}}, {"m", TT_DTYPE_INT32, {2, {-1, 2}}}},
    .outputs = {{"y", TT_DTYPE_INT32, {2, {-1, 4}}}, {"z", TT_DTYPE_INT32, {2, {-1, 2}}}}};

/* A model that the server knows and that is not loaded. `max_run_ms` 0: no limit. */
static inline struct tt_served_model *stuck_model_new(struct tt_serving *serving, const char *name,
                                                      int64_t max_run_ms) {
    struct tt_served_model_spec spec = {.name = name,
                                        .version = "1",
                                        .platform = "stuck",
                                        .config_json = "{}",
                                        .slo_ns = TT_NEVER,
                                        .max_run_ns = max_run_ms * TT_MS,
                                        .priority_count = 100,
                                        .default_priority = 50};
    struct tt_served_model *model;
    assert_int_equal(tt_served_model_new(&spec, &model), TT_OK);
    tt_serving_add(serving, model);
    return model;
}

struct stuck_place {
    struct tt_serving *serving;
    struct tt_engine *engine;
    const struct tt_serving_policy *policy;
    int32_t executors, steps; /* steps 0: 1 */
    int32_t *next_executor;
};

/* Loads it with a profile of 1 us per row and 1 ms, and places it. Returns what it does. */
static inline struct stuck_model *stuck_model_place(struct tt_served_model *model,
                                                    const struct stuck_place *place) {
    struct tt_profile *profile;
    struct tt_error why = {{0}};
    struct stuck_model *stuck = stuck_load(place->engine, &stuck_tensors);
    stuck->steps = place->steps;
    assert_int_equal(tt_profile_new_linear(TT_US, TT_MS, 8, &profile, &why), TT_OK);
    assert_int_equal(tt_served_model_loaded(model, &stuck->model, profile, NULL), TT_OK);
    enum tt_err err = tt_serving_place(place->serving, model, place->policy, place->engine,
                                       place->executors, place->next_executor, &why);
    if (err)
        fail_msg("%s", why.text);
    return stuck;
}

#endif
