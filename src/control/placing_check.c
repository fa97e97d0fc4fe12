#include "control/placing_check.h"

#include "serve/domain.h"
#include "serve/input_ring.h"

#include <string.h>

/* Policies that take cells can take all; others run whole sequences, and a tree is none. */
static enum tt_err check_cells(const struct tt_repository_model *model,
                               const struct tt_placing *placing, struct tt_error *why) {
    const char *policy = placing->policy.name;
    if (tt_domain_works_by_cells(policy)) {
        if (model->settings->unfold)
            return TT_OK;
        return tt_fail(TT_ERR_UNSUPPORTED, why,
                       "policy '%s' works by cells, and tutti.pbtxt names none", policy);
    }
    if (!model->settings->unfold)
        return TT_OK;
    if (model->config->message->n_model_warmup > 0)
        return tt_fail(TT_ERR_UNSUPPORTED, why,
                       "model_warmup is for models of one graph, not of cells: leave it out");
    if (model->settings->unfold->kind == TUTTI__MODEL_UNFOLD__KIND__TREE ||
        model->settings->unfold->kind == TUTTI__MODEL_UNFOLD__KIND__PLUGIN)
        return tt_fail(TT_ERR_UNSUPPORTED, why,
                       "policy '%s' runs requests as whole sequences, and this model unfolds them "
                       "into something else; policy cellular can run it",
                       policy);
    if (strcmp(policy, "diversity") != 0)
        return TT_OK;
    return tt_fail(TT_ERR_UNSUPPORTED, why,
                   "policy 'diversity' is for models in stages, and this one is of cells; policies "
                   "cellular and lazy can run it");
}

static const char *reshaped(const struct tt_tensor_spec *told, const struct tt_shape *engine,
                            int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        bool same = told[i].shape.rank == engine[i].rank;
        for (int32_t d = 0; same && d < engine[i].rank; d++)
            same = told[i].shape.dims[d] == engine[i].dims[d];
        if (!same)
            return told[i].name;
    }
    return NULL;
}

static enum tt_err refuse_reshape(const struct tt_model_config *config, struct tt_error *why) {
    const struct tt_signature *told = &config->signature;
    const char *name = reshaped(told->inputs, config->engine_inputs, told->input_count);
    if (!name)
        name = reshaped(told->outputs, config->engine_outputs, told->output_count);
    return name ? tt_fail(TT_ERR_UNSUPPORTED, why,
                          "tensor '%s' has a reshape in config.pbtxt, which is not supported: give "
                          "the dims that the model itself has",
                          name)
                : TT_OK;
}

enum tt_err tt_placing_check_model(const struct tt_placing *self,
                                   const struct tt_repository_model *model, struct tt_error *why) {
    enum tt_err err = refuse_reshape(model->config, why);
    return err ? err : check_cells(model, self, why);
}

/* Batch mates must have one shape. Where shapes vary, only the policies that look at them may
 * batch, unless padding makes them one: it fills dimension 1, nothing else. */
static enum tt_err check_shapes_mix(const struct tt_served_model *served,
                                    const struct tt_placing *placing, struct tt_error *why) {
    const struct tt_signature *signature = served->signature;
    for (int32_t i = 0; served->pad && i < signature->input_count; i++)
        for (int32_t d = 2; d < signature->inputs[i].shape.rank; d++)
            if (signature->inputs[i].shape.dims[d] < 0)
                return tt_fail(TT_ERR_UNSUPPORTED, why,
                               "length.pad fills dimension 1 only, but dimension %d of input '%s' "
                               "varies too; leave `length` out of tutti.pbtxt",
                               d, signature->inputs[i].name);
    const char *name = placing->policy.name;
    if (served->cells)
        return TT_OK; /* sequences of any lengths go together */
    if (!served->varies || served->pad || signature->max_batch == 1 || strcmp(name, "serial") == 0)
        return TT_OK;
    if (tt_placing_has(placing, "same_length", "on"))
        return TT_OK;
    return tt_fail(
        TT_ERR_UNSUPPORTED, why,
        "policy '%s'%s puts requests of any shapes into one batch, but the inputs of this "
        "model vary; choose policy serial, or window with same_length on, or give "
        "`length { pad: true }` if zeros after the end do not change its results",
        name, strcmp(name, "window") == 0 ? " with same_length off" : "");
}

/* Is a ring of inputs asked for that nobody would wait for, or that cannot be? */
static enum tt_err check_slots(const struct tt_model_settings *settings,
                               const struct tt_served_model *served,
                               const struct tt_placing *placing, struct tt_error *why) {
    const struct tt_policy_kind *kind = tt_policy_find(placing->policy.name);
    if (settings->input_slots == 0 || !kind)
        return TT_OK;
    if (!kind->ops->ready)
        return tt_fail(TT_ERR_INVALID, why,
                       "input_slots: policy %s does not wait for inputs (elastic does); leave it "
                       "out of tutti.pbtxt",
                       kind->name);
    return tt_input_ring_fits(served->signature)
               ? TT_OK
               : tt_fail(TT_ERR_INVALID, why,
                         "input_slots: the model does not batch, or the rows of some input have no "
                         "fixed size, so that they cannot lie in slots; leave it out");
}

enum tt_err tt_placing_check_served(const struct tt_placing *self,
                                    const struct tt_served_model *served,
                                    const struct tt_model_settings *settings,
                                    struct tt_error *why) {
    enum tt_err err = check_shapes_mix(served, self, why);
    return err ? err : check_slots(settings, served, self, why);
}
