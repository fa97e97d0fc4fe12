#include "engine/onnxruntime/ort_exits.h"
#include "engine/onnxruntime/ort_check.h"

#include "engine/onnxruntime/ort_model.h"
#include "engine/onnxruntime/ort_session.h"
#include "engine/onnxruntime/ort_tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An exit while it is loaded: the configuration, and the result. */
struct loading {
    struct tt_ort_model *model;
    const struct tt_engine_exit *options;
    struct tt_ort_exit *exit;
    struct tt_error *why;
};

static enum tt_err no_memory(const struct loading *l) {
    return tt_fail(TT_ERR_NO_MEMORY, l->why, "out of memory");
}

static int32_t find_tensor(const struct tt_ort_model *model, const char *name) {
    for (int32_t t = 0; t < model->tensor_count; t++)
        if (strcmp(model->tensors[t].name, name) == 0)
            return t;
    return -1;
}

static int32_t find_output(const struct tt_ort_exit *exit, const char *name) {
    for (int32_t i = 0; exit->graph && i < exit->graph->output_count; i++)
        if (strcmp(exit->graph->outputs[i].name, name) == 0)
            return i;
    return -1;
}

/* Fails with the names of the tensors that can be read at the exit. */
static enum tt_err refuse_name(const struct loading *l, const char *what, const char *name) {
    char names[700] = "";
    size_t used = 0;
    for (int32_t t = 0; t < l->model->tensor_count && used < sizeof(names) - 1; t++)
        if (l->model->tensors[t].producer <= l->exit->step)
            used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", used ? ", " : "",
                                     l->model->tensors[t].name);
    return tt_fail(TT_ERR_INVALID, l->why,
                   "%s '%s' is not available there: the model's inputs, outputs and tensors "
                   "between stages so far are %s; others need a cut after the node that "
                   "makes them",
                   what, name, names);
}

/* Finds a tensor by name and keeps it until the exit has read it. */
static enum tt_err read_tensor(const struct loading *l, const char *what, const char *name,
                               int32_t *out_tensor) {
    int32_t tensor = find_tensor(l->model, name);
    if (tensor < 0 || l->model->tensors[tensor].producer > l->exit->step)
        return refuse_name(l, what, name);
    struct tt_ort_carried *carried = &l->model->tensors[tensor];
    if (carried->last_use < l->exit->step)
        carried->last_use = l->exit->step;
    *out_tensor = tensor;
    return TT_OK;
}

/* ---- the graph ---- */

static enum tt_err open_graph(const struct loading *l) {
    struct tt_ort_model *model = l->model;
    struct tt_ort_exit *exit = l->exit;
    const OrtApi *api = model->library->api;
    OrtSessionOptions *options = NULL;
    enum tt_err err =
        tt_ort_session_options_new(model->library, TT_ORT_OPTIMIZE_ALL, &options, l->why);
    if (!err)
        err = tt_ort_check(
            model->library,
            api->CreateSession(model->library->env, l->options->graph, options, &exit->session),
            l->why);
    if (options)
        api->ReleaseSessionOptions(options);
    exit->path = strdup(l->options->graph);
    exit->graph = calloc(1, sizeof(*exit->graph));
    if (!err && (!exit->graph || !exit->path))
        err = no_memory(l);
    if (!err)
        err = tt_ort_signature_read(model->library, exit->session, model->signature.batched,
                                    model->signature.max_batch, exit->graph, l->why);
    return err ? tt_fail_in(err, l->why, "%s", l->options->graph) : TT_OK;
}

static enum tt_err bind_graph(const struct loading *l) {
    struct tt_ort_exit *exit = l->exit;
    const struct tt_signature *graph = exit->graph;
    exit->inputs = calloc((size_t)graph->input_count + 1, sizeof(*exit->inputs));
    exit->input_names = calloc((size_t)graph->input_count + 1, sizeof(*exit->input_names));
    exit->output_names = calloc((size_t)graph->output_count + 1, sizeof(*exit->output_names));
    if (!exit->inputs || !exit->input_names || !exit->output_names)
        return no_memory(l);
    for (int32_t i = 0; i < graph->input_count; i++) {
        const struct tt_tensor_spec *spec = &graph->inputs[i];
        enum tt_err err = read_tensor(l, "its graph's input", spec->name, &exit->inputs[i]);
        if (err)
            return err;
        enum tt_dtype dtype = l->model->tensors[exit->inputs[i]].dtype;
        if (dtype != spec->dtype)
            return tt_fail(TT_ERR_INVALID, l->why,
                           "its graph reads '%s' as %s, but the tensor is %s", spec->name,
                           tt_dtype_name(spec->dtype), tt_dtype_name(dtype));
        exit->input_names[i] = spec->name;
    }
    for (int32_t i = 0; i < graph->output_count; i++)
        exit->output_names[i] = graph->outputs[i].name;
    return TT_OK;
}

/* ---- the condition ---- */

static enum tt_err bind_moved(const struct loading *l) {
    struct tt_ort_exit *exit = l->exit;
    enum tt_err err = read_tensor(l, "moved.tensor", l->options->moved, &exit->moved);
    if (!err)
        err = read_tensor(l, "moved.since", l->options->since, &exit->since);
    for (int32_t i = 0; !err && i < 2; i++) {
        const struct tt_ort_carried *carried = &l->model->tensors[i ? exit->since : exit->moved];
        if (carried->dtype != TT_DTYPE_FP32)
            err = tt_fail(TT_ERR_INVALID, l->why, "'%s' is %s; the condition `moved` needs FP32",
                          carried->name, tt_dtype_name(carried->dtype));
    }
    exit->less_than = l->options->less_than;
    return err;
}

static enum tt_err bind_condition(const struct loading *l) {
    struct tt_ort_exit *exit = l->exit;
    exit->condition = -1;
    if (!l->options->condition)
        return bind_moved(l);
    const char *name = l->options->condition;
    exit->condition = find_output(exit, name);
    if (exit->condition < 0)
        return tt_fail(TT_ERR_INVALID, l->why, "its graph has no output '%s' for the condition",
                       name);
    const struct tt_tensor_spec *spec = &exit->graph->outputs[exit->condition];
    if (spec->dtype != TT_DTYPE_BOOL && spec->dtype != TT_DTYPE_FP32)
        return tt_fail(TT_ERR_INVALID, l->why,
                       "the condition '%s' is %s; it must be BOOL or FP32 (true above 0)", name,
                       tt_dtype_name(spec->dtype));
    return TT_OK;
}

/* ---- given tensors ---- */

/* True if a request needs the tensor after this exit and would not have it. */
static bool is_wanted(const struct tt_ort_model *model, const struct tt_ort_exit *exit,
                      int32_t tensor) {
    const struct tt_ort_carried *carried = &model->tensors[tensor];
    bool leaves = exit->to == model->step_count;
    return carried->last_use >= exit->to &&
           (leaves || (carried->producer > exit->step && carried->producer < exit->to));
}

static bool shapes_fit(const struct tt_shape *a, const struct tt_shape *b) {
    if (a->rank == 0 || b->rank == 0)
        return true; /* rank 0: unknown, or a scalar */
    for (int32_t d = 0; a->rank == b->rank && d < a->rank; d++)
        if (a->dims[d] >= 0 && b->dims[d] >= 0 && a->dims[d] != b->dims[d])
            return false;
    return a->rank == b->rank;
}

static enum tt_err find_source(const struct loading *l, struct tt_ort_give *give) {
    const struct tt_ort_exit *exit = l->exit;
    const struct tt_ort_carried *carried = &l->model->tensors[give->tensor];
    const char *from = carried->name;
    for (int32_t i = 0; i < l->options->give_count; i++)
        if (strcmp(l->options->gives[i].tensor, carried->name) == 0)
            from = l->options->gives[i].from;
    struct tt_shape shape;
    enum tt_dtype dtype;
    give->output = find_output(exit, from);
    if (give->output >= 0) {
        shape = exit->graph->outputs[give->output].shape;
        dtype = exit->graph->outputs[give->output].dtype;
    } else {
        bool own = from == carried->name && carried->producer > exit->step;
        if (own)
            return tt_fail(TT_ERR_INVALID, l->why,
                           "nothing gives '%s', which a request needs after this exit: make it "
                           "an output of the exit's graph, or add `give { tensor: \"%s\" from: "
                           "... }`",
                           carried->name, carried->name);
        enum tt_err err = read_tensor(l, "give.from", from, &give->from);
        if (err)
            return err;
        shape = l->model->tensors[give->from].shape;
        dtype = l->model->tensors[give->from].dtype;
    }
    char is[256], wanted[256];
    if (dtype != carried->dtype || !shapes_fit(&shape, &carried->shape))
        return tt_fail(
            TT_ERR_INVALID, l->why, "'%s' is %s %s; to be given as '%s' it must be %s %s", from,
            tt_dtype_name(dtype), tt_shape_print(&shape, is, sizeof(is)), carried->name,
            tt_dtype_name(carried->dtype), tt_shape_print(&carried->shape, wanted, sizeof(wanted)));
    return TT_OK;
}

static enum tt_err bind_gives(const struct loading *l) {
    struct tt_ort_exit *exit = l->exit;
    exit->gives = calloc((size_t)l->model->tensor_count + 1, sizeof(*exit->gives));
    if (!exit->gives)
        return no_memory(l);
    for (int32_t i = 0; i < l->options->give_count; i++) {
        const char *name = l->options->gives[i].tensor;
        int32_t tensor = find_tensor(l->model, name);
        if (tensor < 0 || !is_wanted(l->model, exit, tensor))
            return tt_fail(TT_ERR_INVALID, l->why,
                           "it gives '%s', which the request does not need after this exit", name);
    }
    for (int32_t t = 0; t < l->model->tensor_count; t++) {
        if (!is_wanted(l->model, exit, t))
            continue;
        struct tt_ort_give *give = &exit->gives[exit->give_count++];
        *give = (struct tt_ort_give){.tensor = t, .output = -1, .from = -1};
        enum tt_err err = find_source(l, give);
        if (err)
            return err;
    }
    return TT_OK;
}

/* ---- all of them ---- */

static enum tt_err load_one(const struct loading *l) {
    const struct tt_engine_exit *options = l->options;
    int32_t steps = l->model->step_count;
    if (options->step < 0 || options->step >= steps - 1)
        return tt_fail(TT_ERR_INVALID, l->why,
                       "the model has %d stages: an exit can follow stages 0 to %d", steps,
                       steps - 2);
    if (options->to != 0 && (options->to < options->step + 2 || options->to >= steps))
        return tt_fail(TT_ERR_INVALID, l->why,
                       "it continues at stage %d; to skip stages it must be %d to %d", options->to,
                       options->step + 2, steps - 1);
    l->exit->step = options->step;
    l->exit->to = options->to ? options->to : steps;
    enum tt_err err = options->graph ? open_graph(l) : TT_OK;
    if (!err && options->graph)
        err = bind_graph(l);
    return err ? err : bind_condition(l);
}

static enum tt_err in_words(const struct loading *l, enum tt_err err) {
    return tt_fail_in(err, l->why, "the exit after stage %d", l->options->step);
}

enum tt_err tt_ort_exits_load(struct tt_ort_model *model, const struct tt_engine_exit *options,
                              int32_t count, struct tt_error *why) {
    struct tt_ort_exits *self = &model->exits;
    self->exits = calloc((size_t)count + 1, sizeof(*self->exits));
    if (!self->exits)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    for (int32_t i = 0; i < count; i++) {
        struct tt_ort_exit *exit = &self->exits[self->count++];
        struct loading l = {model, &options[i], exit, why};
        enum tt_err err = load_one(&l);
        if (err)
            return in_words(&l, err);
        exit->first_value = self->value_count;
        self->value_count += exit->graph ? exit->graph->output_count : 0;
    }
    /* last_use of every tensor is final only when all exits are loaded. */
    for (int32_t i = 0; i < count; i++) {
        struct loading l = {model, &options[i], &self->exits[i], why};
        enum tt_err err = bind_gives(&l);
        if (err)
            return in_words(&l, err);
    }
    return TT_OK;
}

void tt_ort_exits_fini(struct tt_ort_model *model) {
    struct tt_ort_exits *self = &model->exits;
    for (int32_t i = 0; i < self->count; i++) {
        struct tt_ort_exit *exit = &self->exits[i];
        if (exit->session)
            model->library->api->ReleaseSession(exit->session);
        free(exit->path);
        free(exit->graph);
        free(exit->inputs);
        free(exit->input_names);
        free(exit->output_names);
        free(exit->gives);
    }
    free(self->exits);
    *self = (struct tt_ort_exits){0};
}
