/* D8: the places where requests leave a model in stages early, or skip stages, as they were loaded.
 *
 * An exit stands after a step. It has a condition on what is there then, and says what becomes of
 * who meets it: the request leaves, or goes on with a later step. The condition is an output of a
 * small graph of its own, or that a tensor moved little since an earlier one. What the skipped
 * steps would have made (where the request leaves: the model's outputs) the exit gives instead,
 * each from an output of its graph or from a tensor that is there.
 *
 * Made with the model, checked as far as can be seen without running, and immutable from then on;
 * ort_exit_routes.h asks the conditions. */
#ifndef TT_ENGINE_ONNXRUNTIME_ORT_EXITS_H
#define TT_ENGINE_ONNXRUNTIME_ORT_EXITS_H

#include "engine/onnxruntime/onnxruntime.h"

struct tt_ort_model;

/* One tensor of the model is to be this. */
struct tt_ort_give {
    int32_t tensor;
    int32_t output; /* of the exit's graph; -1: */
    int32_t from;   /* a tensor of the model */
};

struct tt_ort_exit {
    int32_t step;        /* after which it stands */
    int32_t to;          /* the step that follows; step_count: the request leaves */
    OrtSession *session; /* NULL: there is no graph */
    struct tt_signature *graph;
    int32_t *inputs; /* tensors of the model, one per input of the graph */
    const char **input_names, **output_names;
    int32_t first_value; /* of its graph's outputs among those of all exits */
    int32_t condition;   /* output of the graph; -1: */
    int32_t moved, since;
    double less_than;
    int32_t give_count;
    struct tt_ort_give *gives;
};

struct tt_ort_exits {
    int32_t count, value_count;
    struct tt_ort_exit *exits; /* by step, then as they were written */
};

/* Loads the exits of a model whose steps and tensors stand, and has its tensors last until they are
 * read. Errors: INVALID (which exit, what, and what would be right), those of loading a graph. */
TT_MUST_CHECK enum tt_err tt_ort_exits_load(struct tt_ort_model *model,
                                            const struct tt_engine_exit *options, int32_t count,
                                            struct tt_error *why);
void tt_ort_exits_fini(struct tt_ort_model *model);

#endif
