#include "engine/dataflow.h"

#include <stdlib.h>

enum tt_err tt_dataflow_init(struct tt_dataflow *self, int32_t step_count, int32_t tensor_count) {
    *self = (struct tt_dataflow){.step_count = step_count, .tensor_count = tensor_count};
    self->tensors = calloc((size_t)tensor_count + 1, sizeof(*self->tensors));
    self->steps = calloc((size_t)step_count, sizeof(*self->steps));
    if (self->tensors && self->steps)
        return TT_OK;
    tt_dataflow_fini(self);
    return TT_ERR_NO_MEMORY;
}

enum tt_err tt_dataflow_step_init(struct tt_dataflow_step *self, int32_t input_count,
                                  int32_t output_count) {
    self->inputs = calloc((size_t)input_count + 1, sizeof(*self->inputs));
    self->outputs = calloc((size_t)output_count + 1, sizeof(*self->outputs));
    self->input_count = input_count;
    self->output_count = output_count;
    return self->inputs && self->outputs ? TT_OK : TT_ERR_NO_MEMORY;
}

enum tt_err tt_dataflow_exits_init(struct tt_dataflow *self, int32_t exit_count) {
    self->exits = calloc((size_t)exit_count + 1, sizeof(*self->exits));
    if (!self->exits)
        return TT_ERR_NO_MEMORY;
    self->exit_count = exit_count;
    for (int32_t e = 0; e < exit_count; e++)
        self->exits[e].condition = -1;
    return TT_OK;
}

static void free_step(const struct tt_dataflow_step *step) {
    free(step->inputs);
    free(step->outputs);
}

void tt_dataflow_fini(struct tt_dataflow *self) {
    for (int32_t s = 0; self->steps && s < self->step_count; s++)
        free_step(&self->steps[s]);
    for (int32_t e = 0; e < self->exit_count; e++) {
        free_step(&self->exits[e].test);
        free(self->exits[e].gives);
    }
    free(self->exits);
    free(self->steps);
    free(self->tensors);
    *self = (struct tt_dataflow){0};
}

/* ---- exits ---- */

static bool has(const int32_t *tensors, int32_t count, int32_t tensor) {
    for (int32_t i = 0; i < count; i++)
        if (tensors[i] == tensor)
            return true;
    return false;
}

static bool reads(const struct tt_dataflow *self, const struct tt_dataflow_exit *exit,
                  int32_t tensor) {
    bool compares = exit->condition < 0 && (exit->moved == tensor || exit->since == tensor);
    bool answers = false;
    for (int32_t g = 0; g < exit->give_count && exit->to == self->step_count; g++)
        answers |= exit->gives[g].from == tensor;
    return compares || answers || exit->condition == tensor ||
           has(exit->test.inputs, exit->test.input_count, tensor);
}

bool tt_dataflow_has_exit(const struct tt_dataflow *self, int32_t step) {
    for (int32_t e = 0; e < self->exit_count; e++)
        if (self->exits[e].step == step)
            return true;
    return false;
}

bool tt_dataflow_exit_reads(const struct tt_dataflow *self, int32_t step, int32_t tensor) {
    for (int32_t e = 0; e < self->exit_count; e++)
        if (self->exits[e].step == step && reads(self, &self->exits[e], tensor))
            return true;
    return false;
}

static void keep(struct tt_dataflow *self, int32_t tensor, int32_t step) {
    struct tt_dataflow_tensor *kept = &self->tensors[tensor];
    kept->last_use = kept->last_use > step ? kept->last_use : step;
}

void tt_dataflow_keep_for_exits(struct tt_dataflow *self) {
    for (int32_t e = 0; e < self->exit_count; e++) {
        const struct tt_dataflow_exit *exit = &self->exits[e];
        for (int32_t t = 0; t < self->tensor_count; t++)
            if (reads(self, exit, t) || has(exit->test.outputs, exit->test.output_count, t))
                keep(self, t, exit->step);
        for (int32_t g = 0; g < exit->give_count && exit->to < self->step_count; g++)
            keep(self, exit->gives[g].from, exit->to);
    }
}

/* ---- steps in a row ---- */

static bool set_tensor(struct tt_dataflow_tensor *tensor, const struct tt_tensor_spec *spec,
                       int32_t producer, int32_t last_use) {
    *tensor = (struct tt_dataflow_tensor){.dtype = spec->dtype,
                                          .shape = spec->shape,
                                          .row_bytes = tt_tensor_row_bytes(spec),
                                          .producer = producer,
                                          .last_use = last_use};
    return tensor->row_bytes > 0;
}

/* Step s reads the tensors from `first_in` on, and makes those from `first_out` on. */
static enum tt_err set_step(struct tt_dataflow *self, int32_t s, int32_t first_in, int32_t in_count,
                            int32_t first_out, int32_t out_count) {
    struct tt_dataflow_step *step = &self->steps[s];
    enum tt_err err = tt_dataflow_step_init(step, in_count, out_count);
    for (int32_t i = 0; !err && i < in_count; i++)
        step->inputs[i] = first_in + i;
    for (int32_t i = 0; !err && i < out_count; i++)
        step->outputs[i] = first_out + i;
    return err;
}

static enum tt_err fill_chain(struct tt_dataflow *self, const struct tt_signature *signature,
                              size_t state_bytes) {
    int32_t last = self->step_count - 1, inputs = signature->input_count;
    int32_t first_output = inputs + last;
    bool fits = true;
    for (int32_t i = 0; i < inputs; i++)
        fits &= set_tensor(&self->tensors[i], &signature->inputs[i], -1, 0);
    for (int32_t s = 0; s < last; s++)
        self->tensors[inputs + s] = (struct tt_dataflow_tensor){.dtype = TT_DTYPE_UINT8,
                                                                .shape = {2, {-1, 0}},
                                                                .row_bytes = state_bytes,
                                                                .producer = s,
                                                                .last_use = s + 1};
    for (int32_t i = 0; i < signature->output_count; i++) {
        self->outputs[i] = first_output + i;
        fits &= set_tensor(&self->tensors[first_output + i], &signature->outputs[i], last,
                           self->step_count);
    }
    enum tt_err err = fits ? TT_OK : TT_ERR_INVALID;
    for (int32_t s = 0; !err && s < self->step_count; s++)
        err = set_step(self, s, s == 0 ? 0 : inputs + s - 1, s == 0 ? inputs : 1, inputs + s,
                       s == last ? signature->output_count : 1);
    return err;
}

enum tt_err tt_dataflow_init_chain(struct tt_dataflow *self, const struct tt_signature *signature,
                                   int32_t step_count, size_t state_bytes, struct tt_error *why) {
    int32_t tensors = signature->input_count + step_count - 1 + signature->output_count;
    enum tt_err err = tt_dataflow_init(self, step_count, tensors);
    if (!err)
        err = fill_chain(self, signature, state_bytes);
    if (!err)
        return TT_OK;
    tt_dataflow_fini(self);
    return err == TT_ERR_INVALID
               ? tt_fail(err, why,
                         "an input or output has no fixed size; streams run models in which only "
                         "the number of rows varies")
               : tt_fail(err, why, "out of memory for the steps of a model");
}
