#include "model/onnx/slices.h"

#include "base/durable_file.h"
#include "model/text/textproto.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Smaller weights stay in the stage's file, since the runtime reads the values of shapes and axes
 * while it loads. */
enum { LEAST_SHARED_BYTES = 1024, ALIGNMENT = 64 };

struct writer {
    const struct tt_onnx_graph *graph;
    const struct tt_cut_plan *plan;
    const struct tt_slices_origin *origin;
    const char *directory;
    FILE *weights;
    int64_t weights_bytes;
    int64_t *offsets; /* per initializer; -1: not written */
    bool *wanted;     /* per node: it belongs to the stage being written */
    bool *read;       /* per tensor: the stage reads it */
    bool *made;       /* per tensor: the stage makes it */
    struct tt_error *why;
};

static enum tt_err no_memory(struct writer *w) {
    return tt_fail(TT_ERR_NO_MEMORY, w->why, "out of memory");
}

static enum tt_err io(struct writer *w, const char *file) {
    return tt_fail(TT_ERR_IO, w->why, "%s/%s: %s", w->directory, file, strerror(errno));
}

/* ---- weights ---- */

static bool is_shared(const Onnx__Tensor *tensor) {
    size_t bytes;
    return tt_onnx_tensor_bytes(tensor, &bytes) && bytes >= LEAST_SHARED_BYTES &&
           tensor->n_dims <= TT_MAX_RANK && tt_dtype_bytes(tt_onnx_dtype(tensor->data_type)) > 0;
}

static enum tt_err write_weight(struct writer *w, int32_t initializer) {
    static const char zeros[ALIGNMENT];
    if (w->offsets[initializer] >= 0)
        return TT_OK;
    size_t bytes;
    const void *data =
        tt_onnx_tensor_bytes(w->graph->model->graph->initializer[initializer], &bytes);
    size_t pad = (size_t)(-w->weights_bytes & (ALIGNMENT - 1));
    if (fwrite(zeros, 1, pad, w->weights) != pad || fwrite(data, 1, bytes, w->weights) != bytes)
        return io(w, "weights.bin");
    w->offsets[initializer] = w->weights_bytes + (int64_t)pad;
    w->weights_bytes += (int64_t)(pad + bytes);
    return TT_OK;
}

static bool add_pair(Onnx__Tensor *stub, const char *key, const char *value) {
    Onnx__StringPair *pair = calloc(1, sizeof(*pair));
    if (!pair)
        return false;
    onnx__string_pair__init(pair);
    stub->external_data[stub->n_external_data++] = pair;
    pair->key = strdup(key);
    pair->value = strdup(value);
    return pair->key && pair->value;
}

/* Makes the same tensor without its bytes. */
static Onnx__Tensor *make_stub(struct writer *w, int32_t initializer) {
    const Onnx__Tensor *tensor = w->graph->model->graph->initializer[initializer];
    Onnx__Tensor *stub = calloc(1, sizeof(*stub));
    if (!stub)
        return NULL;
    onnx__tensor__init(stub);
    size_t bytes;
    (void)tt_onnx_tensor_bytes(tensor, &bytes);
    char offset[32], length[32];
    snprintf(offset, sizeof(offset), "%lld", (long long)w->offsets[initializer]);
    snprintf(length, sizeof(length), "%zu", bytes);
    stub->n_dims = tensor->n_dims;
    stub->dims = calloc(tensor->n_dims + 1, sizeof(*stub->dims));
    stub->name = strdup(tensor->name);
    stub->has_data_type = stub->has_data_location = 1;
    stub->data_type = tensor->data_type;
    stub->data_location = 1;
    stub->external_data = calloc(3, sizeof(Onnx__StringPair *));
    if (!stub->dims || !stub->name || !stub->external_data ||
        !add_pair(stub, "location", "weights.bin") || !add_pair(stub, "offset", offset) ||
        !add_pair(stub, "length", length)) {
        onnx__tensor__free_unpacked(stub, NULL);
        return NULL;
    }
    if (tensor->n_dims)
        memcpy(stub->dims, tensor->dims, tensor->n_dims * sizeof(*stub->dims));
    return stub;
}

/* ---- one stage ---- */

/* Marks the nodes of the stage: its own data nodes, the producers of the graph's outputs, and the
 * shape nodes that these need. */
static void choose_nodes(struct writer *w, int32_t first, int32_t end) {
    const struct tt_onnx_graph *graph = w->graph;
    memset(w->wanted, 0, (size_t)graph->node_count * sizeof(*w->wanted));
    memset(w->read, 0, (size_t)graph->tensor_count * sizeof(*w->read));
    memset(w->made, 0, (size_t)graph->tensor_count * sizeof(*w->made));
    for (int32_t i = end - 1; i >= 0; i--) {
        const struct tt_onnx_node *node = &graph->nodes[i];
        bool wanted = i >= first && !node->from_shapes;
        for (int32_t k = 0; k < node->output_count; k++) {
            const struct tt_onnx_tensor *made = &graph->tensors[node->outputs[k]];
            wanted |= node->from_shapes && w->read[node->outputs[k]];
            wanted |= i >= first && made->is_output;
        }
        w->wanted[i] = wanted;
        for (int32_t k = 0; wanted && k < node->input_count; k++)
            w->read[node->inputs[k]] = true;
        for (int32_t k = 0; wanted && k < node->output_count; k++)
            w->made[node->outputs[k]] = true;
    }
}

static Onnx__Dimension *make_dimension(int64_t size, bool is_rows) {
    Onnx__Dimension *dim = calloc(1, sizeof(*dim));
    if (!dim)
        return NULL;
    onnx__dimension__init(dim);
    dim->has_dim_value = size >= 0 && !is_rows;
    dim->dim_value = size >= 0 ? size : 0;
    if (is_rows)
        dim->dim_param = strdup("N");
    return dim;
}

/* Where dimension `i` of a tensor comes from when dimension `rows_dim` moves to the front. */
static int32_t turned_from(int32_t i, int32_t rows_dim) {
    if (i == 0)
        return rows_dim;
    return i <= rows_dim ? i - 1 : i;
}

/* Where it comes from when the front moves back there. */
static int32_t turned_back_from(int32_t i, int32_t rows_dim) {
    if (i == rows_dim)
        return 0;
    return i < rows_dim ? i + 1 : i;
}

/* True if the tensor crosses with its rows first, which they are not in the graph. */
static bool is_turned(const struct writer *w, const struct tt_onnx_tensor *tensor) {
    return w->origin->batched && tensor->rows == TT_ONNX_ROWS_WITHIN;
}

/* Its name between stages; NULL: out of memory. */
static char *make_port_name(const struct writer *w, const struct tt_onnx_tensor *tensor) {
    static const char suffix[] = "@rows";
    if (!is_turned(w, tensor))
        return strdup(tensor->name);
    size_t bytes = strlen(tensor->name) + sizeof(suffix);
    char *name = malloc(bytes);
    if (name)
        snprintf(name, bytes, "%s%s", tensor->name, suffix);
    return name;
}

/* Describes a tensor that enters or leaves a stage. */
static Onnx__Value *make_value(const struct writer *w, const struct tt_onnx_tensor *tensor) {
    Onnx__Value *value = calloc(1, sizeof(*value));
    Onnx__Type *type = calloc(1, sizeof(*type));
    Onnx__TensorType *dense = calloc(1, sizeof(*dense));
    if (!value || !type || !dense) {
        free(value);
        free(type);
        free(dense);
        return NULL;
    }
    onnx__value__init(value);
    onnx__type__init(type);
    onnx__tensor_type__init(dense);
    value->name = make_port_name(w, tensor);
    value->type = type;
    type->tensor_type = dense;
    dense->has_elem_type = 1;
    dense->elem_type = tt_onnx_element(tensor->dtype);
    if (tensor->shape.rank == 0) /* unknown, or a scalar: the runtime infers it */
        return value;
    dense->shape = calloc(1, sizeof(*dense->shape));
    Onnx__Dimension **dims = calloc((size_t)tensor->shape.rank, sizeof(Onnx__Dimension *));
    if (!dense->shape || !dims) {
        free(dims);
        return value;
    }
    onnx__shape__init(dense->shape);
    dense->shape->dim = dims;
    bool turned = is_turned(w, tensor);
    for (int32_t i = 0; i < tensor->shape.rank; i++) {
        int32_t d = turned ? turned_from(i, tensor->rows_dim) : i;
        bool is_rows =
            i == 0 && w->origin->batched && (turned || tensor->rows == TT_ONNX_ROWS_KEPT);
        dims[i] = make_dimension(tensor->shape.dims[d], is_rows);
        dense->shape->n_dim += dims[i] != NULL;
    }
    return value;
}

/* The file's own description of an input or output of the whole model; NULL: the tensor is neither.
 */
static const Onnx__Value *own_words(const struct writer *w, const struct tt_onnx_tensor *tensor) {
    const Onnx__Graph *graph = w->graph->model->graph;
    for (size_t i = 0; tensor->producer == TT_ONNX_FROM_INPUT && i < graph->n_input; i++)
        if (strcmp(graph->input[i]->name, tensor->name) == 0)
            return graph->input[i];
    for (size_t i = 0; tensor->is_output && i < graph->n_output; i++)
        if (strcmp(graph->output[i]->name, tensor->name) == 0)
            return graph->output[i];
    return NULL;
}

struct stage_file {
    Onnx__Model model;
    Onnx__Graph graph;
    size_t first_count, last_count; /* nodes that are ours, at the front and at the end */
    bool *input_is_ours, *output_is_ours,
        *initializer_is_ours; /* true: freed with the stage file */
};

static bool stage_file_init(struct stage_file *self, const struct writer *w) {
    const Onnx__Model *model = w->graph->model;
    size_t max_inputs = (size_t)w->graph->tensor_count + 1;
    onnx__model__init(&self->model);
    onnx__graph__init(&self->graph);
    self->model.has_ir_version = model->has_ir_version;
    self->model.ir_version = model->ir_version;
    self->model.n_opset_import = model->n_opset_import;
    self->model.opset_import = model->opset_import;
    self->model.graph = &self->graph;
    self->graph.name = (char *)"stage";
    self->graph.node = calloc(model->graph->n_node + max_inputs, sizeof(Onnx__Node *));
    self->graph.initializer = calloc(model->graph->n_initializer + 1, sizeof(Onnx__Tensor *));
    self->graph.input = calloc(max_inputs, sizeof(Onnx__Value *));
    self->graph.output = calloc(max_inputs, sizeof(Onnx__Value *));
    self->input_is_ours = calloc(max_inputs, sizeof(bool));
    self->output_is_ours = calloc(max_inputs, sizeof(bool));
    self->initializer_is_ours = calloc(model->graph->n_initializer + 1, sizeof(bool));
    return self->graph.node && self->graph.initializer && self->graph.input && self->graph.output &&
           self->input_is_ours && self->output_is_ours && self->initializer_is_ours;
}

static void stage_file_fini(struct stage_file *self) {
    for (size_t i = 0; i < self->graph.n_node; i++)
        if (i < self->first_count || i >= self->graph.n_node - self->last_count)
            onnx__node__free_unpacked(self->graph.node[i], NULL);
    for (size_t i = 0; i < self->graph.n_input; i++)
        if (self->input_is_ours[i])
            onnx__value__free_unpacked(self->graph.input[i], NULL);
    for (size_t i = 0; i < self->graph.n_output; i++)
        if (self->output_is_ours[i])
            onnx__value__free_unpacked(self->graph.output[i], NULL);
    for (size_t i = 0; i < self->graph.n_initializer; i++)
        if (self->initializer_is_ours[i])
            onnx__tensor__free_unpacked(self->graph.initializer[i], NULL);
    free(self->graph.node);
    free(self->graph.initializer);
    free(self->graph.input);
    free(self->graph.output);
    free(self->input_is_ours);
    free(self->output_is_ours);
    free(self->initializer_is_ours);
}

static enum tt_err add_port(struct writer *w, const struct tt_onnx_tensor *tensor, size_t *count,
                            Onnx__Value **values, bool *is_ours) {
    const Onnx__Value *own = own_words(w, tensor);
    Onnx__Value *value = own ? (Onnx__Value *)own : make_value(w, tensor);
    if (!value)
        return no_memory(w);
    values[*count] = value;
    is_ours[*count] = !own;
    ++*count;
    return TT_OK;
}

static enum tt_err add_initializer(struct writer *w, struct stage_file *file, int32_t initializer) {
    Onnx__Tensor *tensor = w->graph->model->graph->initializer[initializer];
    bool shared = is_shared(tensor);
    if (shared) {
        enum tt_err err = write_weight(w, initializer);
        if (err)
            return err;
        tensor = make_stub(w, initializer);
        if (!tensor)
            return no_memory(w);
    }
    file->initializer_is_ours[file->graph.n_initializer] = shared;
    file->graph.initializer[file->graph.n_initializer++] = tensor;
    return TT_OK;
}

static enum tt_err add_tensors(struct writer *w, struct stage_file *file, int32_t first,
                               int32_t end) {
    enum tt_err err = TT_OK;
    for (int32_t t = 0; !err && t < w->graph->tensor_count; t++) {
        const struct tt_onnx_tensor *tensor = &w->graph->tensors[t];
        if (tensor->initializer >= 0 && w->read[t])
            err = add_initializer(w, file, tensor->initializer);
        else if (w->read[t] && !w->made[t])
            err = add_port(w, tensor, &file->graph.n_input, file->graph.input, file->input_is_ours);
        bool leaves = !tensor->from_shapes && tensor->last_use >= end;
        leaves |= tensor->is_output && tensor->producer >= first;
        if (!err && w->made[t] && leaves)
            err = add_port(w, tensor, &file->graph.n_output, file->graph.output,
                           file->output_is_ours);
    }
    return err;
}

/* Adds the Transpose between the tensor and its form between stages. */
static enum tt_err add_turn(struct writer *w, struct stage_file *file,
                            const struct tt_onnx_tensor *tensor, bool is_input) {
    Onnx__Node *node = calloc(1, sizeof(*node));
    if (!node)
        return no_memory(w);
    onnx__node__init(node);
    file->graph.node[file->graph.n_node++] = node;
    *(is_input ? &file->first_count : &file->last_count) += 1;
    Onnx__Attribute *perm = calloc(1, sizeof(*perm));
    char *there = make_port_name(w, tensor), *here = strdup(tensor->name);
    node->input = calloc(1, sizeof(*node->input));
    node->output = calloc(1, sizeof(*node->output));
    node->attribute = calloc(1, sizeof(Onnx__Attribute *));
    node->op_type = strdup("Transpose");
    int64_t *ints = calloc(TT_MAX_RANK, sizeof(*ints));
    bool good = perm && there && here && node->input && node->output && node->attribute &&
                node->op_type && ints && (node->name = make_port_name(w, tensor)) != NULL;
    if (!good) {
        free(perm);
        free(there);
        free(here);
        free(ints);
        return no_memory(w);
    }
    onnx__attribute__init(perm);
    node->attribute[node->n_attribute++] = perm;
    node->input[node->n_input++] = is_input ? there : here;
    node->output[node->n_output++] = is_input ? here : there;
    perm->name = strdup("perm");
    perm->has_type = 1;
    perm->type = 7; /* INTS */
    perm->ints = ints;
    perm->n_ints = (size_t)tensor->shape.rank;
    for (int32_t i = 0; i < tensor->shape.rank; i++)
        ints[i] =
            is_input ? turned_back_from(i, tensor->rows_dim) : turned_from(i, tensor->rows_dim);
    return perm->name ? TT_OK : no_memory(w);
}

static enum tt_err turn_inputs(struct writer *w, struct stage_file *file) {
    enum tt_err err = TT_OK;
    for (int32_t t = 0; !err && t < w->graph->tensor_count; t++)
        if (w->read[t] && !w->made[t] && is_turned(w, &w->graph->tensors[t]))
            err = add_turn(w, file, &w->graph->tensors[t], true);
    return err;
}

static enum tt_err turn_outputs(struct writer *w, struct stage_file *file, int32_t end) {
    enum tt_err err = TT_OK;
    for (int32_t t = 0; !err && t < w->graph->tensor_count; t++) {
        const struct tt_onnx_tensor *tensor = &w->graph->tensors[t];
        if (w->made[t] && tensor->last_use >= end && is_turned(w, tensor))
            err = add_turn(w, file, tensor, false);
    }
    return err;
}

static enum tt_err write_stage_file(struct writer *w, int32_t stage,
                                    const struct stage_file *file) {
    char name[32], path[4096];
    snprintf(name, sizeof(name), "stage-%04d.onnx", stage);
    snprintf(path, sizeof(path), "%s/%s", w->directory, name);
    struct tt_text text;
    tt_text_init(&text);
    size_t bytes = onnx__model__get_packed_size(&file->model);
    char *to = tt_text_reserve(&text, bytes);
    enum tt_err err = to ? TT_OK : no_memory(w);
    if (!err) {
        text.length += onnx__model__pack(&file->model, (uint8_t *)to);
        err = tt_text_write_file(path, &text, w->why);
    }
    tt_text_fini(&text);
    return err;
}

static enum tt_err write_stage(struct writer *w, int32_t stage) {
    int32_t first = w->plan->first_nodes[stage], end = w->plan->first_nodes[stage + 1];
    choose_nodes(w, first, end);
    struct stage_file file = {0};
    enum tt_err err = stage_file_init(&file, w) ? TT_OK : no_memory(w);
    if (!err)
        err = turn_inputs(w, &file);
    for (int32_t i = 0; !err && i < end; i++)
        if (w->wanted[i])
            file.graph.node[file.graph.n_node++] = w->graph->model->graph->node[i];
    if (!err)
        err = turn_outputs(w, &file, end);
    if (!err)
        err = add_tensors(w, &file, first, end);
    if (!err)
        err = write_stage_file(w, stage, &file);
    stage_file_fini(&file);
    return err;
}

/* ---- slices.pbtxt ---- */

static void put_field(struct tt_text *to, const char *field, const char *string) {
    tt_text_printf(to, "%s: ", field);
    tt_textproto_put_string(to, string);
    tt_text_puts(to, "\n");
}

static void put_tensors(struct tt_text *to, const char *field, const struct tt_tensor_spec *specs,
                        int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        tt_text_printf(to, "%s { name: ", field);
        tt_textproto_put_string(to, specs[i].name);
        tt_text_printf(to, " datatype: \"%s\"", tt_dtype_name(specs[i].dtype));
        for (int32_t d = 0; d < specs[i].shape.rank; d++)
            tt_text_printf(to, " dims: %lld", (long long)specs[i].shape.dims[d]);
        tt_text_puts(to, " }\n");
    }
}

static enum tt_err write_manifest(struct writer *w) {
    const struct tt_slices_origin *origin = w->origin;
    struct tt_text text;
    tt_text_init(&text);
    put_field(&text, "model_sha256", origin->model_sha256);
    put_field(&text, "onnxruntime", origin->onnxruntime);
    put_field(&text, "device", origin->device);
    put_field(&text, "asked", origin->asked);
    tt_text_printf(&text, "batched: %s\n", origin->batched ? "true" : "false");
    put_field(&text, "made_by", origin->made_by);
    put_field(&text, "times", origin->times);
    put_tensors(&text, "input", origin->signature.inputs, origin->signature.input_count);
    put_tensors(&text, "output", origin->signature.outputs, origin->signature.output_count);
    for (int32_t s = 0; s < w->plan->stage_count; s++) {
        int32_t first = w->plan->first_nodes[s], end = w->plan->first_nodes[s + 1];
        char name[300];
        tt_text_printf(&text,
                       "stage { file: \"stage-%04d.onnx\" first_node: %d node_count: %d "
                       "time_ns: %lld ends_after: ",
                       s, first, end - first, (long long)w->plan->times_ns[s]);
        tt_textproto_put_string(&text,
                                tt_onnx_graph_node_name(w->graph, end - 1, name, sizeof(name)));
        tt_text_puts(&text, " }\n");
    }
    char path[4096];
    snprintf(path, sizeof(path), "%s/slices.pbtxt", w->directory);
    enum tt_err err = text.failed ? no_memory(w) : tt_text_write_file(path, &text, w->why);
    tt_text_fini(&text);
    return err;
}

static enum tt_err write_all(struct writer *w) {
    char path[4096];
    snprintf(path, sizeof(path), "%s/weights.bin", w->directory);
    if (mkdir(w->directory, 0755) != 0)
        return tt_fail(TT_ERR_IO, w->why, "%s: %s", w->directory, strerror(errno));
    w->weights = fopen(path, "wb");
    if (!w->weights)
        return io(w, "weights.bin");
    enum tt_err err = TT_OK;
    for (int32_t s = 0; !err && s < w->plan->stage_count; s++)
        err = write_stage(w, s);
    if (tt_durable_close(w->weights) && !err)
        err = io(w, "weights.bin");
    return err ? err : write_manifest(w);
}

enum tt_err tt_slices_write(const struct tt_onnx_graph *graph, const struct tt_cut_plan *plan,
                            const struct tt_slices_origin *origin, const char *directory,
                            struct tt_error *why) {
    size_t initializers = graph->model->graph->n_initializer;
    struct writer w = {.graph = graph,
                       .plan = plan,
                       .origin = origin,
                       .directory = directory,
                       .offsets = malloc((initializers + 1) * sizeof(*w.offsets)),
                       .wanted = calloc((size_t)graph->node_count + 1, sizeof(*w.wanted)),
                       .read = calloc((size_t)graph->tensor_count + 1, sizeof(*w.read)),
                       .made = calloc((size_t)graph->tensor_count + 1, sizeof(*w.made)),
                       .why = why};
    enum tt_err err = TT_OK;
    if (!w.offsets || !w.wanted || !w.read || !w.made)
        err = no_memory(&w);
    for (size_t i = 0; !err && i < initializers; i++)
        w.offsets[i] = -1;
    if (!err)
        err = write_all(&w);
    free(w.offsets);
    free(w.wanted);
    free(w.read);
    free(w.made);
    return err;
}

enum tt_err tt_slices_set_check(const char *directory, const struct tt_slices_check *check,
                                struct tt_error *why) {
    char path[4096];
    snprintf(path, sizeof(path), "%s/slices.pbtxt", directory);
    struct tt_text text;
    tt_text_init(&text);
    enum tt_err err = tt_text_read_file(path, 64 << 20, &text, why);
    if (!err) {
        tt_text_printf(&text, "check { rows: %d length: %d ", check->rows, check->length);
        tt_text_printf(&text, "%s: %d ", "specimen", check->synthetic);
        tt_text_printf(&text, "outputs_sha256: \"%s\" }\n", check->outputs_sha256);
        err = text.failed ? tt_fail(TT_ERR_NO_MEMORY, why, "out of memory")
                          : tt_text_write_file(path, &text, why);
    }
    tt_text_fini(&text);
    return err;
}
