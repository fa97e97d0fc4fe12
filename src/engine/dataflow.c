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

void tt_dataflow_fini(struct tt_dataflow *self) {
    for (int32_t s = 0; self->steps && s < self->step_count; s++) {
        free(self->steps[s].inputs);
        free(self->steps[s].outputs);
    }
    free(self->steps);
    free(self->tensors);
    *self = (struct tt_dataflow){0};
}

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
