/* The steps of an ensemble, as config.pbtxt describes them: which models they name, and which
 * tensors go between them.
 *
 * Life: made by tt_model_config_complete() from `ensemble_scheduling`, and owned by the
 * configuration. Tensors have the names that input_map and output_map give them. Problems that the
 * configuration alone shows are findings: tensors that nothing makes or that two steps make, steps
 * that wait for each other, outputs that no step makes. Whether the models fit is checked when they
 * are known (`tt_ensemble_fit`): names, datatypes, shapes and batch sizes.
 *
 * It knows signatures only, and runs nothing. Implemented in config_ensemble.c and ensemble_fit.c.
 */
#ifndef TT_MODEL_CONFIG_ENSEMBLE_CONFIG_H
#define TT_MODEL_CONFIG_ENSEMBLE_CONFIG_H

#include "base/err.h"
#include "core/tensor.h"

struct tt_model_config;

enum { TT_ENSEMBLE_CONFIG_STEPS = 64, TT_ENSEMBLE_CONFIG_TENSORS = 512 };

/* One entry of input_map or output_map. */
struct tt_ensemble_map {
    const char *name; /* the model's; borrowed from the configuration, as all names */
    int32_t tensor;   /* index in `tensors` */
};

struct tt_ensemble_config_step {
    const char *model;
    char version[24]; /* "": the highest that serves */
    int32_t number;   /* from 1, as written */
    int32_t input_count, output_count;
    struct tt_ensemble_map *inputs, *outputs;
};

struct tt_ensemble_tensor {
    const char *name;
    int32_t step;  /* the step that makes it; -1: it is an input of the ensemble, */
    int32_t input; /* with this index */
};

struct tt_ensemble_config {
    int32_t step_count, tensor_count;
    struct tt_ensemble_config_step *steps; /* each reads only earlier ones */
    struct tt_ensemble_tensor *tensors;
    int32_t outputs[TT_MAX_TENSORS]; /* the tensor of each output of the ensemble */
};

void tt_ensemble_config_free(struct tt_ensemble_config *take_self); /* NULL-safe */

/* The steps of the model `name`; NULL: it is no ensemble, or not known. */
typedef const struct tt_ensemble_config *tt_ensemble_look_up_fn(void *context, const char *name);
/* Checks that the step's model does not need the model `name` in turn. Errors: INVALID, NO_MEMORY.
 */
TT_MUST_CHECK enum tt_err tt_ensemble_check_circle(const struct tt_ensemble_config_step *step,
                                                   const char *name,
                                                   tt_ensemble_look_up_fn *look_up, void *context,
                                                   struct tt_error *why);

/* What is known of the tensors while the models of the steps are looked at, one after the other. */
struct tt_ensemble_fit {
    const struct tt_model_config *config;
    const struct tt_tensor_spec *specs[TT_ENSEMBLE_CONFIG_TENSORS]; /* NULL: not yet */
    int32_t outputs[TT_ENSEMBLE_CONFIG_TENSORS]; /* index in the signature of the step's model */
};

void tt_ensemble_fit_init(struct tt_ensemble_fit *self, const struct tt_model_config *config);
/* Checks that a model of this signature, borrowed until _end, fits step `step`; steps in order.
 * out_tensors[input_count]: the tensor of each input of the model. Errors: INVALID; `why` names
 * step and tensor. */
TT_MUST_CHECK enum tt_err tt_ensemble_fit_step(struct tt_ensemble_fit *self, int32_t step,
                                               const struct tt_signature *signature,
                                               int32_t *out_tensors, struct tt_error *why);
/* After all steps: checks the outputs of the ensemble. Errors: INVALID. */
TT_MUST_CHECK enum tt_err tt_ensemble_fit_end(const struct tt_ensemble_fit *self,
                                              struct tt_error *why);

#endif
