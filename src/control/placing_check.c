#include "control/placing_check.h"

#include "engine/engine_kind.h"
#include "serve/input_ring.h"
#include "serve/served_model_state.h"

#include <stdio.h>

/* Policies by cells run any unfolding. Other policies run sequences, so not trees; those that batch
 * between stages need stages. */
static enum tt_err check_cells(const struct tt_repository_model *model,
                               const struct tt_placing *placing, struct tt_error *why) {
    const char *policy = placing->policy.name;
    const struct tt_policy_kind *kind = tt_placing_kind(placing);
    const struct tt_model_settings *settings = model->settings;
    bool has_cells = tt_model_settings_has_cells(settings);
    if (placing->runs_whole)
        return TT_OK;
    if (has_cells && model->config->message->n_model_warmup > 0)
        return tt_fail(TT_ERR_UNSUPPORTED, why,
                       "model_warmup is for models of one graph, not of cells: leave it out");
    if (settings->device.is_given && tt_model_settings_has_caches(settings))
        return tt_fail(TT_ERR_UNSUPPORTED, why,
                       "states with in_place are for models without device { }, whose cells run on "
                       "the CPU");
    if (kind && tt_policy_is_by_cells(kind)) {
        if (has_cells)
            return TT_OK;
        return tt_fail(TT_ERR_UNSUPPORTED, why,
                       "policy '%s' works by cells, but tutti.pbtxt names none", policy);
    }
    if (!has_cells)
        return TT_OK;
    if (tt_model_settings_has_trees(settings))
        return tt_fail(
            TT_ERR_UNSUPPORTED, why,
            "policy '%s' runs requests as whole sequences, but this model unfolds them into "
            "trees or with a plug-in; policy cellular can run it",
            policy);
    if (!kind || kind->traits.granularity != TT_GRANULARITY_STAGE)
        return TT_OK;
    return tt_fail(TT_ERR_UNSUPPORTED, why,
                   "policy '%s' is for models in stages, but this model is one of cells; policies "
                   "cellular and lazy can run it",
                   policy);
}

static const char *reshaped(const struct tt_tensor_spec *configured, const struct tt_shape *engine,
                            int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        bool same = configured[i].shape.rank == engine[i].rank;
        for (int32_t d = 0; same && d < engine[i].rank; d++)
            same = configured[i].shape.dims[d] == engine[i].dims[d];
        if (!same)
            return configured[i].name;
    }
    return NULL;
}

static enum tt_err refuse_reshape(const struct tt_model_config *config, struct tt_error *why) {
    const struct tt_signature *configured = &config->signature;
    const char *name = reshaped(configured->inputs, config->engine_inputs, configured->input_count);
    if (!name)
        name = reshaped(configured->outputs, config->engine_outputs, configured->output_count);
    return name ? tt_fail(TT_ERR_UNSUPPORTED, why,
                          "tensor '%s' has a reshape in config.pbtxt, which is not supported: give "
                          "the dims that the model itself has",
                          name)
                : TT_OK;
}

/* Only an ONNX file can be cut, and only cells have files of their own. */
static enum tt_err check_file(const struct tt_repository_model *model, struct tt_error *why) {
    const struct tt_engine_traits *engine = model->config->engine;
    if (!engine->emulates && model->settings->emulation.is_given)
        return tt_fail(TT_ERR_UNSUPPORTED, why,
                       "`emulation` in tutti.pbtxt is for models with backend \"emulated\", not "
                       "\"%s\": leave it out",
                       engine->name);
    if (engine->needs_file)
        return TT_OK;
    if (model->settings->stages)
        return tt_fail(
            TT_ERR_UNSUPPORTED, why,
            "a model with backend '%s' has no graph to cut: leave `stages` out of tutti.pbtxt%s",
            engine->name,
            engine->emulates ? ", and write a `step { ... }` per stage in profile.pbtxt" : "");
    if (model->settings->unfold)
        return tt_fail(TT_ERR_UNSUPPORTED, why,
                       "a model with backend '%s' has no files of cells: leave `unfold` and `cell` "
                       "out of tutti.pbtxt%s",
                       engine->name,
                       engine->emulates ? ", and write emulation { cells { ... } }" : "");
    return TT_OK;
}

/* Streams run graphs, whole or in stages, and cells, of engines that can compute on them, and the
 * steps of a profile. */
static enum tt_err check_device(const struct tt_repository_model *model,
                                const struct tt_placing *placing, struct tt_error *why) {
    const struct tt_model_settings *settings = model->settings;
    const struct tt_engine_traits *engine = model->config->engine;
    if (!settings->device.is_given || placing->runs_whole) /* then another node has the device */
        return TT_OK;
    if (!engine->runs_on_streams)
        return tt_fail(TT_ERR_UNSUPPORTED, why,
                       "backend '%s' does not run on the streams of a device: leave `device` out "
                       "of tutti.pbtxt",
                       engine->name);
    if (settings->device.is_cuda && !tt_engine_kind_of(engine)->gpu)
        return tt_fail(TT_ERR_UNSUPPORTED, why,
                       "backend '%s' does not run on a GPU: leave `kind` out of `device` in "
                       "tutti.pbtxt",
                       engine->name);
    const struct tt_policy_kind *kind = tt_placing_kind(placing);
    bool by_stages = kind && kind->traits.granularity == TT_GRANULARITY_STAGE;
    if (settings->message->n_exit > 0 && !by_stages)
        return tt_fail(TT_ERR_UNSUPPORTED, why,
                       "policy '%s' does not return to the host at each stage, where a device's "
                       "requests exit: choose policy diversity, or leave `exit` or `device` out "
                       "of tutti.pbtxt",
                       placing->policy.name);
    if (!tt_model_settings_has_cells(settings) || (kind && tt_policy_is_by_cells(kind)))
        return TT_OK;
    return tt_fail(TT_ERR_UNSUPPORTED, why,
                   "policy '%s' runs requests as whole sequences, and a device runs single cells: "
                   "choose policy cellular or merged, or leave `device` out of tutti.pbtxt",
                   placing->policy.name);
}

enum tt_err tt_placing_check_model(const struct tt_placing *self,
                                   const struct tt_repository_model *model, struct tt_error *why) {
    enum tt_err err = refuse_reshape(model->config, why);
    if (!err)
        err = check_file(model, why);
    if (!err)
        err = check_device(model, self, why);
    return err ? err : check_cells(model, self, why);
}

enum tt_err tt_placing_check_gpus(const struct tt_repository_model *model, struct tt_error *why) {
    const struct tt_model_config *config = model->config;
    bool asks = false;
    for (int32_t i = 0; config->has_groups && i < config->group_count; i++)
        asks |= config->groups[i].kind == TT_INSTANCE_GPU || config->groups[i].gpu_count > 0;
    return !asks || config->engine->uses_gpus || model->settings->device.is_cuda
               ? TT_OK
               : tt_fail(
                     TT_ERR_UNSUPPORTED, why,
                     "instance_group in config.pbtxt asks for a GPU, and backend '%s' uses none: "
                     "write kind: KIND_CPU without gpus, or serve without --strict-gpu",
                     config->engine->name);
}

/* Members of a batch must have one shape. If shapes vary, only policies that separate them may
 * batch, unless padding makes shapes equal. Padding fills dimension 1 only. */
static enum tt_err check_shapes_mix(const struct tt_placing *placing,
                                    const struct tt_model_settings *settings,
                                    const struct tt_signature *signature, bool has_cells,
                                    struct tt_error *why) {
    for (int32_t i = 0; settings->pad && i < signature->input_count; i++)
        for (int32_t d = 2; d < signature->inputs[i].shape.rank; d++)
            if (signature->inputs[i].shape.dims[d] < 0)
                return tt_fail(TT_ERR_UNSUPPORTED, why,
                               "length.pad fills dimension 1 only, but dimension %d of input '%s' "
                               "varies too; leave `length` out of tutti.pbtxt",
                               d, signature->inputs[i].name);
    const struct tt_policy_kind *kind = tt_placing_kind(placing);
    if (has_cells)
        return TT_OK; /* sequences of different lengths share batches */
    if (!tt_signature_varies(signature) || settings->pad || signature->max_batch == 1)
        return TT_OK;
    if (kind && (kind->traits.runs_alone || tt_placing_has(placing, kind->serving.same_shape)))
        return TT_OK;
    char option[64] = "";
    const char *key = kind ? kind->serving.same_shape.key : NULL;
    if (key) {
        const char *value = tt_options_value(key, placing->options, placing->policy.option_count);
        snprintf(option, sizeof(option), " with %s %s", key, value ? value : "not given");
    }
    return tt_fail(
        TT_ERR_UNSUPPORTED, why,
        "policy '%s'%s puts requests of any shapes into one batch, but the inputs of this "
        "model vary; choose policy serial, or window with same_length on, or give "
        "`length { pad: true }` if zeros after the end do not change its results",
        placing->policy.name, option);
}

/* Rejects a ring of inputs that the policy would not use, or that the model cannot have. */
static enum tt_err check_slots(const struct tt_model_settings *settings,
                               const struct tt_signature *signature,
                               const struct tt_placing *placing, struct tt_error *why) {
    const struct tt_policy_kind *kind = tt_placing_kind(placing);
    if (settings->input_slots == 0 || !kind || placing->runs_whole)
        return TT_OK;
    if (!kind->traits.waits_for_inputs)
        return tt_fail(TT_ERR_INVALID, why,
                       "input_slots: policy %s does not wait for inputs (elastic does); leave it "
                       "out of tutti.pbtxt",
                       kind->name);
    return tt_input_ring_fits(signature)
               ? TT_OK
               : tt_fail(
                     TT_ERR_INVALID, why,
                     "input_slots: a ring of inputs needs a model that batches and rows of fixed "
                     "size in every input; leave it out of tutti.pbtxt");
}

/* Arenas on a device are laid out once. */
static enum tt_err check_sizes(const struct tt_model_settings *settings,
                               const struct tt_signature *signature, bool has_cells,
                               struct tt_error *why) {
    if (!settings->device.is_given || has_cells)
        return TT_OK;
    if (!signature->batched)
        return tt_fail(
            TT_ERR_UNSUPPORTED, why,
            "a device runs models that batch: leave `device` out of tutti.pbtxt, or give "
            "max_batch_size in config.pbtxt");
    int32_t inputs = signature->input_count;
    for (int32_t i = 0; i < inputs + signature->output_count; i++) {
        const struct tt_tensor_spec *spec =
            i < inputs ? &signature->inputs[i] : &signature->outputs[i - inputs];
        if (tt_tensor_row_bytes(spec) == 0)
            return tt_fail(TT_ERR_UNSUPPORTED, why,
                           "%s '%s' has rows of no fixed size, and a device needs one: leave "
                           "`device` out of tutti.pbtxt, or fix its dims in config.pbtxt",
                           i < inputs ? "input" : "output", spec->name);
    }
    return TT_OK;
}

enum tt_err tt_placing_check_signature(const struct tt_placing *self,
                                       const struct tt_model_settings *settings,
                                       const struct tt_signature *signature, bool has_cells,
                                       struct tt_error *why) {
    enum tt_err err = check_shapes_mix(self, settings, signature, has_cells, why);
    if (!err && !self->runs_whole)
        err = check_sizes(settings, signature, has_cells, why);
    return err ? err : check_slots(settings, signature, self, why);
}

enum tt_err tt_placing_check_served(const struct tt_placing *self,
                                    const struct tt_served_model *served,
                                    const struct tt_model_settings *settings,
                                    struct tt_error *why) {
    return tt_placing_check_signature(self, settings, served->signature, served->cells != NULL,
                                      why);
}
