/* Whether the models that an ensemble names fit its steps. */
#include "base/array.h"
#include "model/config/config.h"
#include "model/config/ensemble_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tt_ensemble_fit_init(struct tt_ensemble_fit *self, const struct tt_model_config *config) {
    const struct tt_ensemble_config *ensemble = config->ensemble;
    *self = (struct tt_ensemble_fit){.config = config};
    for (int32_t t = 0; t < ensemble->tensor_count; t++)
        if (ensemble->tensors[t].step < 0)
            self->specs[t] = &config->signature.inputs[ensemble->tensors[t].input];
}

/* The ensembles that a walk has come to. */
struct walk {
    const struct tt_ensemble_config **items;
    int64_t capacity;
    int32_t count;
};

static bool walk_add(struct walk *self, const struct tt_ensemble_config *ensemble) {
    for (int32_t i = 0; i < self->count; i++)
        if (self->items[i] == ensemble)
            return true;
    if (!TT_ARRAY_RESERVE(self->items, &self->capacity, self->count + 1))
        return false;
    self->items[self->count++] = ensemble;
    return true;
}

enum tt_err tt_ensemble_check_circle(const struct tt_ensemble_config_step *step, const char *name,
                                     tt_ensemble_look_up_fn *look_up, void *context,
                                     struct tt_error *why) {
    struct walk walk = {0};
    const struct tt_ensemble_config *first = look_up(context, step->model);
    bool has_memory = !first || walk_add(&walk, first), is_circle = false;
    for (int32_t i = 0; i < walk.count && has_memory && !is_circle; i++) {
        for (int32_t s = 0; s < walk.items[i]->step_count && has_memory; s++) {
            const char *part = walk.items[i]->steps[s].model;
            const struct tt_ensemble_config *next = look_up(context, part);
            is_circle |= strcmp(part, name) == 0;
            has_memory = !next || walk_add(&walk, next);
        }
    }
    free(walk.items);
    if (!has_memory)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for the steps of model %s", name);
    return is_circle ? tt_fail(TT_ERR_INVALID, why,
                               "step %d (model '%s'): that ensemble needs '%s' in turn; ensembles "
                               "cannot go in a circle",
                               step->number, step->model, name)
                     : TT_OK;
}

static int32_t find(const struct tt_tensor_spec *specs, int32_t count, const char *name) {
    for (int32_t i = 0; i < count; i++)
        if (strcmp(specs[i].name, name) == 0)
            return i;
    return -1;
}

static bool agree(const struct tt_tensor_spec *made, const struct tt_tensor_spec *read) {
    if (made->dtype != read->dtype || made->shape.rank != read->shape.rank)
        return false;
    for (int32_t d = 0; d < made->shape.rank; d++)
        if (made->shape.dims[d] != read->shape.dims[d] && made->shape.dims[d] >= 0 &&
            read->shape.dims[d] >= 0)
            return false;
    return true;
}

static enum tt_err fail_unknown(const struct tt_tensor_spec *specs, int32_t count, const char *map,
                                const char *role, const char *name, struct tt_error *why) {
    char known[400] = "";
    size_t used = 0;
    for (int32_t i = 0; i < count && used < sizeof(known); i++)
        used += (size_t)snprintf(known + used, sizeof(known) - used, "%s'%s'", i ? ", " : "",
                                 specs[i].name);
    return tt_fail(TT_ERR_INVALID, why,
                   "%s names %s '%s', which the model does not have; it has %s", map, role, name,
                   known);
}

static enum tt_err fit_input(const struct tt_ensemble_fit *self, const struct tt_ensemble_map *map,
                             const struct tt_tensor_spec *spec, struct tt_error *why) {
    const struct tt_ensemble_tensor *tensor = &self->config->ensemble->tensors[map->tensor];
    const struct tt_tensor_spec *made = self->specs[map->tensor];
    char found[200], wanted[200];
    tt_assert(made != NULL);
    if (agree(made, spec))
        return TT_OK;
    return tt_fail(TT_ERR_INVALID, why,
                   "tensor '%s' is %s %s, but input '%s' of the model is %s %s", tensor->name,
                   tt_dtype_name(made->dtype), tt_shape_print(&made->shape, found, sizeof(found)),
                   spec->name, tt_dtype_name(spec->dtype),
                   tt_shape_print(&spec->shape, wanted, sizeof(wanted)));
}

static enum tt_err fit_inputs(const struct tt_ensemble_fit *self,
                              const struct tt_ensemble_config_step *step,
                              const struct tt_signature *signature, int32_t *out_tensors,
                              struct tt_error *why) {
    for (int32_t i = 0; i < signature->input_count; i++)
        out_tensors[i] = -1;
    for (int32_t m = 0; m < step->input_count; m++) {
        const struct tt_ensemble_map *map = &step->inputs[m];
        int32_t i = find(signature->inputs, signature->input_count, map->name);
        if (i < 0)
            return fail_unknown(signature->inputs, signature->input_count, "input_map", "input",
                                map->name, why);
        enum tt_err err = fit_input(self, map, &signature->inputs[i], why);
        if (err)
            return err;
        out_tensors[i] = map->tensor;
    }
    for (int32_t i = 0; i < signature->input_count; i++)
        if (out_tensors[i] < 0)
            return tt_fail(TT_ERR_INVALID, why,
                           "input '%s' of the model is missing in input_map, which names a tensor "
                           "for each input",
                           signature->inputs[i].name);
    return TT_OK;
}

static enum tt_err fit_outputs(struct tt_ensemble_fit *self,
                               const struct tt_ensemble_config_step *step,
                               const struct tt_signature *signature, struct tt_error *why) {
    for (int32_t m = 0; m < step->output_count; m++) {
        const struct tt_ensemble_map *map = &step->outputs[m];
        int32_t i = find(signature->outputs, signature->output_count, map->name);
        if (i < 0)
            return fail_unknown(signature->outputs, signature->output_count, "output_map", "output",
                                map->name, why);
        self->specs[map->tensor] = &signature->outputs[i];
        self->outputs[map->tensor] = i;
    }
    return TT_OK;
}

static enum tt_err fit_batches(const struct tt_signature *whole, const struct tt_signature *part,
                               struct tt_error *why) {
    if (!whole->batched)
        return TT_OK;
    if (!part->batched)
        return tt_fail(TT_ERR_INVALID, why,
                       "the ensemble has max_batch_size %d, but the model does not batch; write "
                       "max_batch_size: 0",
                       whole->max_batch);
    if (part->max_batch < whole->max_batch)
        return tt_fail(TT_ERR_INVALID, why,
                       "the ensemble has max_batch_size %d, but the model takes %d rows at most",
                       whole->max_batch, part->max_batch);
    return TT_OK;
}

enum tt_err tt_ensemble_fit_step(struct tt_ensemble_fit *self, int32_t step,
                                 const struct tt_signature *signature, int32_t *out_tensors,
                                 struct tt_error *why) {
    const struct tt_ensemble_config_step *at = &self->config->ensemble->steps[step];
    enum tt_err err = fit_batches(&self->config->signature, signature, why);
    if (!err)
        err = fit_inputs(self, at, signature, out_tensors, why);
    if (!err)
        err = fit_outputs(self, at, signature, why);
    return err ? tt_fail_in(err, why, "step %d (model '%s')", at->number, at->model) : TT_OK;
}

enum tt_err tt_ensemble_fit_end(const struct tt_ensemble_fit *self, struct tt_error *why) {
    const struct tt_signature *signature = &self->config->signature;
    char found[200], wanted[200];
    for (int32_t i = 0; i < signature->output_count; i++) {
        int32_t t = self->config->ensemble->outputs[i];
        const struct tt_ensemble_tensor *tensor = &self->config->ensemble->tensors[t];
        const struct tt_ensemble_config_step *step = &self->config->ensemble->steps[tensor->step];
        const struct tt_tensor_spec *spec = &signature->outputs[i], *made = self->specs[t];
        if (!agree(made, spec))
            return tt_fail(TT_ERR_INVALID, why,
                           "output '%s' is %s %s in the configuration, but step %d (model '%s') "
                           "makes %s %s",
                           spec->name, tt_dtype_name(spec->dtype),
                           tt_shape_print(&spec->shape, wanted, sizeof(wanted)), step->number,
                           step->model, tt_dtype_name(made->dtype),
                           tt_shape_print(&made->shape, found, sizeof(found)));
    }
    return TT_OK;
}
