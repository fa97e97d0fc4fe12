/* D8: the exits of a loaded model in stages: where requests leave it early or skip stages.
 *
 * An exit belongs to a step. It has a condition, evaluated after that step, and a target: the
 * request leaves the model, or continues at a later step. The condition is an output of the exit's
 * own small graph, or that a tensor has changed little since an earlier one. The exit gives what
 * the skipped steps would have made (if the request leaves: the model's outputs). Each such tensor
 * comes from an output of the graph or from a tensor that exists at the step.
 *
 * Exits are made with the model, checked as far as possible without running, and immutable after
 * that. ort_exit_routes.h evaluates the conditions. */
#ifndef TT_ENGINE_ONNXRUNTIME_ORT_EXITS_H
#define TT_ENGINE_ONNXRUNTIME_ORT_EXITS_H

#include "engine/onnxruntime/onnxruntime.h"

struct tt_ort_model;

/* The source of one tensor of the model. */
struct tt_ort_give {
    int32_t tensor;
    int32_t output; /* index of an output of the exit's graph; -1: */
    int32_t from;   /* index of a tensor of the model */
};

struct tt_ort_exit {
    int32_t step;        /* the exit follows this step */
    int32_t to;          /* the next step; step_count: the request leaves */
    char *path;          /* of its graph; NULL: the exit has none */
    OrtSession *session; /* NULL: as `path` */
    struct tt_signature *graph;
    int32_t *inputs; /* tensors of the model, one per input of the graph */
    const char **input_names, **output_names;
    int32_t first_value; /* index of its graph's first output among those of all exits */
    int32_t condition;   /* index of an output of the graph; -1: the next line */
    int32_t moved, since;
    double less_than;
    int32_t give_count;
    struct tt_ort_give *gives;
};

struct tt_ort_exits {
    int32_t count, value_count;
    struct tt_ort_exit *exits; /* by step, then in the order of the configuration */
};

/* Loads the exits of a model whose steps and tensors are set, and extends the life of tensors that
 * exits read. Errors: INVALID (the message says which exit, what, and what would be right), those
 * of loading a graph. */
TT_MUST_CHECK enum tt_err tt_ort_exits_load(struct tt_ort_model *model,
                                            const struct tt_engine_exit *options, int32_t count,
                                            struct tt_error *why);
void tt_ort_exits_fini(struct tt_ort_model *model);

#endif
