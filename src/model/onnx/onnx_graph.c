#include "model/onnx/onnx_graph.h"

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct builder {
    const char *file_name;
    struct tt_onnx_graph *graph;
    struct hsearch_data names; /* name -> number of the tensor + 1 */
    int32_t tensor_capacity;
    struct tt_error *why;
};

static const struct {
    int32_t element;
    enum tt_dtype dtype;
} types[] = {
    {1, TT_DTYPE_FP32},    {2, TT_DTYPE_UINT8}, {3, TT_DTYPE_INT8},  {4, TT_DTYPE_UINT16},
    {5, TT_DTYPE_INT16},   {6, TT_DTYPE_INT32}, {7, TT_DTYPE_INT64}, {8, TT_DTYPE_BYTES},
    {9, TT_DTYPE_BOOL},    {10, TT_DTYPE_FP16}, {11, TT_DTYPE_FP64}, {12, TT_DTYPE_UINT32},
    {13, TT_DTYPE_UINT64}, {16, TT_DTYPE_BF16},
};

enum tt_dtype tt_onnx_dtype(int32_t element) {
    for (size_t i = 0; i < TT_COUNT(types); i++)
        if (types[i].element == element)
            return types[i].dtype;
    return TT_DTYPE_NONE;
}

int32_t tt_onnx_element(enum tt_dtype dtype) {
    for (size_t i = 0; i < TT_COUNT(types); i++)
        if (types[i].dtype == dtype)
            return types[i].element;
    return 0;
}

const void *tt_onnx_tensor_bytes(const Onnx__Tensor *tensor, size_t *out_bytes) {
    if (tensor->n_external_data || tensor->data_location)
        return NULL;
    if (tensor->has_raw_data) {
        *out_bytes = tensor->raw_data.len;
        return tensor->raw_data.data;
    }
    *out_bytes = tensor->n_float_data * sizeof(float) + tensor->n_int64_data * sizeof(int64_t);
    if (tensor->n_float_data && tensor->data_type == 1)
        return tensor->float_data;
    return tensor->n_int64_data && tensor->data_type == 7 ? tensor->int64_data : NULL;
}

/* ---- tensors by name ---- */

static int32_t find_tensor(struct builder *b, const char *name) {
    ENTRY wanted = {.key = (char *)name}, *found;
    return hsearch_r(wanted, FIND, &found, &b->names) ? (int32_t)(intptr_t)found->data - 1 : -1;
}

static enum tt_err add_tensor(struct builder *b, const char *name, int32_t producer,
                              int32_t initializer, int32_t *out_index) {
    struct tt_onnx_graph *graph = b->graph;
    if (find_tensor(b, name) >= 0)
        return tt_fail(TT_ERR_INVALID, b->why, "%s: two nodes make tensor '%s'", b->file_name,
                       name);
    tt_assert(graph->tensor_count < b->tensor_capacity);
    int32_t index = graph->tensor_count++;
    graph->tensors[index] = (struct tt_onnx_tensor){
        .name = name, .producer = producer, .initializer = initializer, .last_use = -1};
    ENTRY entry = {.key = (char *)name, .data = (void *)(intptr_t)(index + 1)}, *entered;
    if (!hsearch_r(entry, ENTER, &entered, &b->names))
        return tt_fail(TT_ERR_NO_MEMORY, b->why, "%s: out of memory", b->file_name);
    *out_index = index;
    return TT_OK;
}

/* ---- nodes ---- */

/* Adds every tensor of the outer graph that an inner graph reads to the inputs of `node`. */
static enum tt_err each_capture(struct builder *b, const Onnx__Graph *inner,
                                struct tt_onnx_node *node);

static enum tt_err note_read(struct builder *b, struct tt_onnx_node *node, const char *name,
                             bool must_exist) {
    int32_t tensor = *name ? find_tensor(b, name) : -1;
    if (tensor < 0)
        return *name && must_exist
                   ? tt_fail(TT_ERR_INVALID, b->why,
                             "%s: %s '%s' reads tensor '%s', which nothing before it makes",
                             b->file_name, node->message->op_type ? node->message->op_type : "node",
                             node->message->name ? node->message->name : "", name)
                   : TT_OK;
    for (int32_t i = 0; i < node->input_count; i++)
        if (node->inputs[i] == tensor)
            return TT_OK;
    int32_t *grown = realloc(node->inputs, (size_t)(node->input_count + 1) * sizeof(*grown));
    if (!grown)
        return tt_fail(TT_ERR_NO_MEMORY, b->why, "%s: out of memory", b->file_name);
    node->inputs = grown;
    node->inputs[node->input_count++] = tensor;
    return TT_OK;
}

static enum tt_err inner_graphs(struct builder *b, const Onnx__Node *message,
                                struct tt_onnx_node *node) {
    enum tt_err err = TT_OK;
    for (size_t i = 0; !err && i < message->n_attribute; i++) {
        const Onnx__Attribute *attribute = message->attribute[i];
        if (attribute->g)
            err = each_capture(b, attribute->g, node);
        for (size_t k = 0; !err && k < attribute->n_graphs; k++)
            err = each_capture(b, attribute->graphs[k], node);
    }
    return err;
}

static enum tt_err each_capture(struct builder *b, const Onnx__Graph *inner,
                                struct tt_onnx_node *node) {
    enum tt_err err = TT_OK;
    for (size_t i = 0; !err && i < inner->n_node; i++) {
        for (size_t k = 0; !err && k < inner->node[i]->n_input; k++)
            err = note_read(b, node, inner->node[i]->input[k], false);
        if (!err)
            err = inner_graphs(b, inner->node[i], node);
    }
    for (size_t i = 0; !err && i < inner->n_output; i++)
        if (inner->output[i]->name)
            err = note_read(b, node, inner->output[i]->name, false);
    return err;
}

static bool is_default(const Onnx__Node *node, const char *op) {
    return (!node->domain || !*node->domain) && node->op_type && strcmp(node->op_type, op) == 0;
}

/* True if the node gives another result on every run. */
static bool draws(const Onnx__Node *node) {
    static const char *const drawing[] = {"RandomNormal",      "RandomNormalLike", "RandomUniform",
                                          "RandomUniformLike", "Multinomial",      "Bernoulli"};
    for (size_t i = 0; i < TT_COUNT(drawing); i++)
        if (is_default(node, drawing[i]))
            return true;
    return false;
}

static bool follows_from_shapes(const struct tt_onnx_graph *graph,
                                const struct tt_onnx_node *node) {
    if (is_default(node->message, "Shape") || is_default(node->message, "Size"))
        return true;
    if (draws(node->message))
        return false;
    for (int32_t i = 0; i < node->input_count; i++)
        if (!graph->tensors[node->inputs[i]].from_shapes)
            return false;
    return true;
}

static enum tt_err take_node(struct builder *b, int32_t index) {
    struct tt_onnx_node *node = &b->graph->nodes[index];
    const Onnx__Node *message = b->graph->model->graph->node[index];
    node->message = message;
    node->outputs = calloc(message->n_output + 1, sizeof(*node->outputs));
    if (!node->outputs)
        return tt_fail(TT_ERR_NO_MEMORY, b->why, "%s: out of memory", b->file_name);
    enum tt_err err = TT_OK;
    for (size_t i = 0; !err && i < message->n_input; i++)
        err = note_read(b, node, message->input[i], true);
    if (!err)
        err = inner_graphs(b, message, node);
    if (err)
        return err;
    node->from_shapes = follows_from_shapes(b->graph, node);
    for (size_t i = 0; !err && i < message->n_output; i++) {
        if (!*message->output[i])
            continue;
        int32_t tensor;
        err = add_tensor(b, message->output[i], index, -1, &tensor);
        if (err)
            return err;
        b->graph->tensors[tensor].from_shapes = node->from_shapes;
        node->outputs[node->output_count++] = tensor;
    }
    return err;
}

/* ---- the whole graph ---- */

static enum tt_err take_ports(struct builder *b) {
    struct tt_onnx_graph *graph = b->graph;
    const Onnx__Graph *message = graph->model->graph;
    graph->inputs = calloc(message->n_input + 1, sizeof(*graph->inputs));
    graph->outputs = calloc(message->n_output + 1, sizeof(*graph->outputs));
    if (!graph->inputs || !graph->outputs)
        return tt_fail(TT_ERR_NO_MEMORY, b->why, "%s: out of memory", b->file_name);
    for (size_t i = 0; i < message->n_initializer; i++) {
        int32_t tensor;
        const char *name = message->initializer[i]->name;
        enum tt_err err =
            add_tensor(b, name ? name : "", TT_ONNX_FROM_INITIALIZER, (int32_t)i, &tensor);
        if (err)
            return err;
        graph->tensors[tensor].from_shapes = true;
    }
    for (size_t i = 0; i < message->n_input; i++) {
        const char *name = message->input[i]->name;
        int32_t tensor = find_tensor(b, name ? name : "");
        if (tensor >= 0 && graph->tensors[tensor].initializer >= 0)
            continue; /* it has a default in the file, so it is not an input */
        enum tt_err err = add_tensor(b, name ? name : "", TT_ONNX_FROM_INPUT, -1, &tensor);
        if (err)
            return err;
        graph->inputs[graph->input_count++] = tensor;
    }
    return TT_OK;
}

static enum tt_err take_outputs(struct builder *b) {
    struct tt_onnx_graph *graph = b->graph;
    const Onnx__Graph *message = graph->model->graph;
    for (size_t i = 0; i < message->n_output; i++) {
        const char *name = message->output[i]->name ? message->output[i]->name : "";
        int32_t tensor = find_tensor(b, name);
        if (tensor < 0 || graph->tensors[tensor].producer < 0)
            return tt_fail(TT_ERR_INVALID, b->why, "%s: no node makes output '%s'", b->file_name,
                           name);
        graph->tensors[tensor].is_output = true;
        graph->outputs[graph->output_count++] = tensor;
    }
    return TT_OK;
}

/* A recomputed tensor stays live as long as the tensors derived from it. */
static void find_last_uses(struct tt_onnx_graph *graph) {
    for (int32_t i = 0; i < graph->output_count; i++)
        graph->tensors[graph->outputs[i]].last_use = graph->node_count;
    for (int32_t i = graph->node_count - 1; i >= 0; i--) {
        const struct tt_onnx_node *node = &graph->nodes[i];
        int32_t reach = i;
        for (int32_t k = 0; node->from_shapes && k < node->output_count; k++) {
            const struct tt_onnx_tensor *made = &graph->tensors[node->outputs[k]];
            /* The stage that contains its producer returns an output of the graph. */
            if (made->last_use > reach && made->last_use < graph->node_count)
                reach = made->last_use;
        }
        for (int32_t k = 0; k < node->input_count; k++) {
            struct tt_onnx_tensor *read = &graph->tensors[node->inputs[k]];
            read->last_use = read->last_use > reach ? read->last_use : reach;
        }
    }
}

static enum tt_err build(struct builder *b) {
    struct tt_onnx_graph *graph = b->graph;
    const Onnx__Graph *message = graph->model->graph;
    size_t most = message->n_initializer + message->n_input;
    for (size_t i = 0; i < message->n_node; i++)
        most += message->node[i]->n_output;
    graph->node_count = (int32_t)message->n_node;
    b->tensor_capacity = (int32_t)most;
    graph->nodes = calloc(message->n_node + 1, sizeof(*graph->nodes));
    graph->tensors = calloc(most + 1, sizeof(*graph->tensors));
    if (!graph->nodes || !graph->tensors || !hcreate_r(most * 2 + 16, &b->names))
        return tt_fail(TT_ERR_NO_MEMORY, b->why, "%s: out of memory", b->file_name);
    enum tt_err err = take_ports(b);
    for (int32_t i = 0; !err && i < graph->node_count; i++)
        err = take_node(b, i);
    if (!err)
        err = take_outputs(b);
    if (!err)
        find_last_uses(graph);
    hdestroy_r(&b->names);
    return err;
}

enum tt_err tt_onnx_graph_new(const char *file_name, const void *bytes, size_t length,
                              struct tt_onnx_graph **out_graph, struct tt_error *why) {
    struct tt_onnx_graph *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "%s: out of memory", file_name);
    self->model = onnx__model__unpack(NULL, length, bytes);
    struct builder b = {.file_name = file_name, .graph = self, .why = why};
    enum tt_err err = TT_OK;
    if (!self->model || !self->model->graph)
        err = tt_fail(TT_ERR_INVALID, why, "%s: not an ONNX model that can be taken apart",
                      file_name);
    else if (self->model->graph->n_node > 1 << 20 || self->model->graph->n_initializer > 1 << 20)
        err =
            tt_fail(TT_ERR_UNSUPPORTED, why, "%s: a graph of more than a million nodes", file_name);
    else
        err = build(&b);
    if (err) {
        tt_onnx_graph_free(self);
        return err;
    }
    *out_graph = self;
    return TT_OK;
}

void tt_onnx_graph_free(struct tt_onnx_graph *take_graph) {
    if (!take_graph)
        return;
    for (int32_t i = 0; take_graph->nodes && i < take_graph->node_count; i++) {
        free(take_graph->nodes[i].inputs);
        free(take_graph->nodes[i].outputs);
    }
    free(take_graph->nodes);
    free(take_graph->tensors);
    free(take_graph->inputs);
    free(take_graph->outputs);
    if (take_graph->model)
        onnx__model__free_unpacked(take_graph->model, NULL);
    free(take_graph);
}

char *tt_onnx_graph_node_name(const struct tt_onnx_graph *self, int32_t node, char *out,
                              size_t capacity) {
    const Onnx__Node *message = self->nodes[node].message;
    const char *op = message->op_type ? message->op_type : "node";
    const char *name = message->name && *message->name ? message->name
                       : message->n_output             ? message->output[0]
                                                       : "";
    snprintf(out, capacity, "%s '%s' (node %d)", op, name, node);
    return out;
}

int32_t tt_onnx_graph_find(const struct tt_onnx_graph *self, const char *name) {
    for (int32_t i = 0; i < self->node_count; i++) {
        const char *node = self->nodes[i].message->name;
        if (node && strcmp(node, name) == 0)
            return i;
    }
    for (int32_t i = 0; i < self->tensor_count; i++)
        if (self->tensors[i].producer >= 0 && strcmp(self->tensors[i].name, name) == 0)
            return self->tensors[i].producer;
    return -1;
}
