#include "lab/facts/fact_repository.h"

#include "lab/plan/plan_settings.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_BYTES = 1024, ELEMENT_BYTES = 4 };

/* ---- what can be served ---- */

static bool has_bytes(const struct tt_scenario_model *model) {
    return model->input_bytes > 0 || model->output_bytes > 0;
}

static bool has_recurrent_steps(const struct tt_scenario_model *model) {
    for (int32_t s = 0; s < model->step_model.step_count; s++)
        if (model->steps[s].kind != TT_STEP_STATIC)
            return true;
    return false;
}

static const char *unservable(const struct tt_scenario_model *model) {
    const struct tt_step_model *step_model = &model->step_model;
    if (has_recurrent_steps(model) || model->tree != TT_TREE_NONE)
        return "is of cells";
    if (model->lengths || model->length > 0)
        return "has lengths";
    if (step_model->rules || step_model->window_ns > 0 || step_model->preferred_count > 0 ||
        step_model->executor_count > 0 || step_model->slots > 0)
        return "has settings of its own for its queue, executors or slots";
    return NULL;
}

static enum tt_err check_devices(const struct tt_scenario *scenario, struct tt_error *why) {
    const struct tt_sim_device *device = &scenario->devices[0];
    bool copies = has_bytes(&scenario->models[0]), shares = device->executors > 1;
    bool slots = device->pool_slots > 0;
    for (int32_t m = 0; m < scenario->model_count; m++)
        copies = copies || has_bytes(&scenario->models[m]);
    if ((copies || shares || slots) && (scenario->device_count > 1 || scenario->model_count > 1))
        return tt_fail(TT_ERR_INVALID, why,
                       "with copies, input slots, or executors that share a device, a served run "
                       "has one model on one device");
    return TT_OK;
}

enum tt_err tt_fact_repository_check(const struct tt_scenario *scenario, int64_t reply_ns,
                                     struct tt_error *why) {
    for (int32_t m = 0; m < scenario->model_count; m++) {
        if (scenario->models[m].step_model.slo_ns <= reply_ns)
            return tt_fail(TT_ERR_INVALID, why,
                           "reply_ms leaves nothing of the objective of model '%s', %g ms",
                           scenario->models[m].name,
                           (double)scenario->models[m].step_model.slo_ns / 1e6);
        const char *what = unservable(&scenario->models[m]);
        if (what)
            return tt_fail(TT_ERR_INVALID, why,
                           "model '%s' %s; a served run takes models of one graph, whole or in "
                           "stages, and of one length",
                           scenario->models[m].name, what);
    }
    if (scenario->option_count > TT_MAX_OPTIONS)
        return tt_fail(TT_ERR_INVALID, why, "a policy has at most %d options", TT_MAX_OPTIONS);
    if (scenario->noise.spread_permille > 0 || scenario->noise.outlier_permille > 0 ||
        scenario->jitter_permille > 0 || scenario->learns || scenario->abort_ns > 0)
        return tt_fail(TT_ERR_INVALID, why,
                       "a served run has no jitter, noise, abort_ms or learning");
    return check_devices(scenario, why);
}

/* ---- the files of a model ---- */

/* Elements of a row that stands for `bytes`. */
static int64_t elements(int64_t bytes) {
    int64_t count = bytes / TT_FACT_REPOSITORY_SHRINKS / ELEMENT_BYTES;
    return count > 0 ? count : 1;
}

static void print_config(const struct tt_scenario_model *model, struct tt_text *out) {
    static const char tensor[] =
        "%s { name: \"%s\" data_type: TYPE_FP32 dims: [ %lld ] }\n"; /* ELEMENT_BYTES each */
    tt_text_printf(out, "backend: \"emulated\"\nmax_batch_size: %d\n", model->step_model.max_batch);
    tt_text_printf(out, tensor, "input", "x", (long long)elements(model->input_bytes));
    tt_text_printf(out, tensor, "output", "y", (long long)elements(model->output_bytes));
}

static void print_points(const struct tt_profile *profile, int32_t max_batch, struct tt_text *out) {
    for (int32_t b = 1; b <= max_batch; b++) {
        tt_text_printf(out, "point { batch: %d latency_ns: %lld", b,
                       (long long)tt_profile_latency(profile, b, 0));
        if (profile->knows_demand)
            tt_text_printf(out, " demand: %.6f",
                           (double)tt_profile_demand(profile, b, 0) / TT_DEMAND_WHOLE);
        tt_text_puts(out, " }\n");
    }
}

static void print_profile(const struct tt_scenario_model *model, struct tt_text *out) {
    const struct tt_step_model *step_model = &model->step_model;
    tt_text_printf(out, "max_batch: %d\n", step_model->max_batch);
    print_points(step_model->whole, step_model->max_batch, out);
    for (int32_t s = 0; step_model->step_count > 1 && s < step_model->step_count; s++) {
        tt_text_printf(out, "step { name: \"step%d\"\n", s);
        print_points(step_model->steps[s].profile, step_model->max_batch, out);
        tt_text_puts(out, "}\n");
    }
}

/* `bytes`: of the scenario's row, in place of which those of the elements travel. */
static void print_copies(const char *name, const struct tt_copy_engine *engine, int64_t bytes,
                         struct tt_text *out) {
    double share = bytes > 0 ? (double)(elements(bytes) * ELEMENT_BYTES) / (double)bytes : 1;
    tt_text_printf(out, "  %s { fixed_us: %.6f gb_per_s: %.9f }\n", name,
                   (double)engine->fixed_ns / 1e3, (double)engine->bytes_per_s / 1e9 * share);
}

/* The device's part of tutti.pbtxt. */
static void print_device(const struct tt_scenario *scenario, const struct tt_scenario_model *model,
                         struct tt_text *out) {
    const struct tt_sim_device *device = &scenario->devices[0];
    if (!has_bytes(model) && device->executors == 1 && device->pool_slots == 0)
        return;
    bool streams = has_bytes(model) || device->pool_slots > 0;
    tt_text_puts(out, "emulation {\n");
    if (!streams) /* else all executors are streams of the one device */
        tt_text_printf(out, "  device_executors: %d\n", device->executors);
    if (has_bytes(model)) {
        print_copies("copy_in", &device->copy_in, model->input_bytes, out);
        print_copies("copy_out", &device->copy_out, model->output_bytes, out);
    }
    tt_text_puts(out, "}\n");
    if (streams)
        tt_text_printf(out, "device { copies: %s }\n", device->pool_slots > 0 ? "EACH" : "WHOLE");
}

static enum tt_err print_settings(const struct tt_scenario *scenario,
                                  const struct tt_scenario_model *model, int64_t reply_ns,
                                  struct tt_text *out, struct tt_error *why) {
    int64_t slo_ns = model->step_model.slo_ns;
    struct tt_option options[TT_MAX_OPTIONS];
    tt_assert(scenario->option_count <= TT_MAX_OPTIONS); /* as _check saw to */
    for (int32_t i = 0; i < scenario->option_count; i++)
        options[i] = tt_scenario_option(scenario, i);
    const struct tt_plan_settings policy = {.policy = scenario->policy,
                                            .options = options,
                                            .option_count = scenario->option_count,
                                            .slo_ns =
                                                slo_ns == TT_NEVER ? TT_NEVER : slo_ns - reply_ns};
    enum tt_err err = tt_plan_settings_text("", &policy, out, why);
    if (!err)
        print_device(scenario, model, out);
    return err;
}

static enum tt_err write_file(const char *folder, const char *name, const struct tt_text *text,
                              struct tt_error *why) {
    char path[PATH_BYTES + 16];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return tt_text_write_file(path, text, why);
}

static enum tt_err write_model(const struct tt_scenario *scenario,
                               const struct tt_scenario_model *model, int64_t reply_ns,
                               const char *parent, struct tt_error *why) {
    char folder[PATH_BYTES], version[PATH_BYTES + 16];
    if (snprintf(folder, sizeof(folder), "%s/%s", parent, model->name) >= (int)sizeof(folder))
        return tt_fail(TT_ERR_IO, why, "%s: the path is too long", parent);
    snprintf(version, sizeof(version), "%s/1", folder);
    if (mkdir(folder, 0700) != 0 || mkdir(version, 0700) != 0)
        return tt_fail(TT_ERR_IO, why, "%s: %s", folder, strerror(errno));
    struct tt_text config, profile, settings;
    tt_text_init(&config);
    tt_text_init(&profile);
    tt_text_init(&settings);
    print_config(model, &config);
    print_profile(model, &profile);
    enum tt_err err = print_settings(scenario, model, reply_ns, &settings, why);
    if (!err)
        err = write_file(folder, "config.pbtxt", &config, why);
    if (!err)
        err = write_file(folder, "profile.pbtxt", &profile, why);
    if (!err)
        err = write_file(folder, "tutti.pbtxt", &settings, why);
    tt_text_fini(&config);
    tt_text_fini(&profile);
    tt_text_fini(&settings);
    return err;
}

enum tt_err tt_fact_repository_write(const struct tt_scenario *scenario, int64_t reply_ns,
                                     const char *folder, struct tt_error *why) {
    enum tt_err err = TT_OK;
    for (int32_t m = 0; !err && m < scenario->model_count; m++)
        err = write_model(scenario, &scenario->models[m], reply_ns, folder, why);
    return err;
}
