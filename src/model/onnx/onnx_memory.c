#include "model/onnx/onnx_memory.h"

#include "base/array.h"
#include "model/onnx/onnx_graph.h"
#include "model/onnx/onnx_walk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Field numbers of onnx.proto. */
enum {
    MODEL_GRAPH = 7,
    GRAPH_NODE = 1,
    GRAPH_INITIALIZER = 5,
    GRAPH_OUTPUT = 12,
    GRAPH_VALUE_INFO = 13,
    NODE_INPUT = 1,
    NODE_OUTPUT = 2,
    NODE_NAME = 3,
    NODE_OP = 4,
    NODE_ATTRIBUTE = 5,
    ATTRIBUTE_NAME = 1,
    ATTRIBUTE_INTEGER = 3,
    ATTRIBUTE_TENSOR = 5,
    ATTRIBUTE_GRAPH = 6,
    ATTRIBUTE_INTEGERS = 8,
    ATTRIBUTE_GRAPHS = 11,
    TENSOR_DIM = 1,
    TENSOR_TYPE = 2,
    TENSOR_INT64 = 7,
    TENSOR_NAME = 8,
    TENSOR_RAW = 9,
    VALUE_NAME = 1,
    VALUE_TYPE = 2,
    TYPE_TENSOR = 1,
    TYPE_ELEMENT = 1,
    TYPE_SHAPE = 2,
    SHAPE_DIM = 1,
    DIM_VALUE = 1,
};

enum { MAX_DEPTH = 32, FLOAT_BYTES = 4, MAX_SHAPE_BYTES = 8 * 64 };

/* A tensor of integers that may be a shape: the product of its elements. */
struct constant {
    struct tt_onnx_span name;
    int64_t product;
};

struct estimate {
    struct constant *constants; /* sorted by name, in the second pass */
    int64_t constant_count, constant_capacity;
    struct tt_onnx_memory *memory;
    int64_t max_batch;
    int32_t node;   /* of the outermost graph, counted */
    int32_t depth;  /* of inner graphs */
    bool is_second; /* all constants are known */
};

static int64_t times(int64_t a, int64_t b) {
    int64_t product;
    if (a < 0 || b < 0)
        return 0; /* no shape */
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

static int64_t plus(int64_t a, int64_t b) {
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

/* 1 for a type that is not known. */
static int64_t element_bytes(uint64_t element) {
    enum tt_dtype dtype = element <= INT32_MAX ? tt_onnx_dtype((int32_t)element) : TT_DTYPE_NONE;
    size_t bytes = dtype == TT_DTYPE_NONE ? 0 : tt_dtype_bytes(dtype);
    return bytes ? (int64_t)bytes : 1;
}

static int compare_names(struct tt_onnx_span a, struct tt_onnx_span b) {
    size_t length_a = tt_onnx_span_length(a), length_b = tt_onnx_span_length(b);
    if (length_a != length_b)
        return length_a < length_b ? -1 : 1;
    return length_a ? memcmp(a.at, b.at, length_a) : 0;
}

static int compare_constants(const void *a, const void *b) {
    return compare_names(((const struct constant *)a)->name, ((const struct constant *)b)->name);
}

static enum tt_err add_constant(struct tt_onnx_walk *walk, struct tt_onnx_span name,
                                int64_t product) {
    struct estimate *self = walk->context;
    if (self->is_second || tt_onnx_span_length(name) == 0)
        return TT_OK;
    if (self->constant_count == TT_ONNX_MAX_CONSTANTS)
        return tt_fail(TT_ERR_INVALID, walk->why, "%s: more than %d constants", walk->file_name,
                       (int)TT_ONNX_MAX_CONSTANTS);
    if (!TT_ARRAY_RESERVE(self->constants, &self->constant_capacity, self->constant_count + 1))
        return tt_fail(TT_ERR_NO_MEMORY, walk->why, "%s: out of memory", walk->file_name);
    self->constants[self->constant_count++] = (struct constant){name, product};
    return TT_OK;
}

/* -1: it is no constant. */
static int64_t product_of(const struct estimate *self, struct tt_onnx_span name) {
    const struct constant wanted = {.name = name};
    const struct constant *found =
        self->constant_count ? bsearch(&wanted, self->constants, (size_t)self->constant_count,
                                       sizeof(wanted), compare_constants)
                             : NULL;
    return found ? found->product : -1;
}

static void note(struct estimate *self, int64_t bytes, const char *kind, struct tt_onnx_span name,
                 bool is_node) {
    struct tt_onnx_memory *memory = self->memory;
    if (bytes <= memory->largest_bytes)
        return;
    int length = (int)tt_onnx_span_length(name);
    memory->largest_bytes = bytes;
    int end = snprintf(memory->largest, sizeof(memory->largest), "%s '%.*s'", kind,
                       length < 150 ? length : 150, name.at ? (const char *)name.at : "");
    if (is_node && self->depth == 0 && end > 0 && (size_t)end < sizeof(memory->largest))
        snprintf(memory->largest + end, sizeof(memory->largest) - (size_t)end, " (node %d)",
                 self->node);
    for (char *c = memory->largest; *c; c++)
        if ((unsigned char)*c < ' ' || (unsigned char)*c >= 0x7f)
            *c = '?'; /* the name is the file's */
}

/* ---- tensors ---- */

/* Multiplies by a repeated integer field, packed or not. */
static enum tt_err multiply(struct tt_onnx_walk *walk, const struct tt_onnx_field *field,
                            int64_t *product) {
    struct tt_onnx_span packed = field->bytes;
    if (field->wire_type == TT_ONNX_WIRE_NUMBER) {
        *product = times(*product, (int64_t)field->value);
        return TT_OK;
    }
    while (packed.at < packed.end) {
        uint64_t value = 0;
        int shift = 0;
        do {
            if (packed.at == packed.end || shift > 63)
                return tt_onnx_damaged(walk, field->bytes.at, "a number is cut off");
            value |= (uint64_t)(*packed.at & 127) << shift;
            shift += 7;
        } while (*packed.at++ & 128);
        *product = times(*product, (int64_t)value);
    }
    return TT_OK;
}

struct tensor {
    struct tt_onnx_span name, raw;
    int64_t count;   /* of elements */
    int64_t product; /* of the elements of int64_data */
    uint64_t element;
    bool has_integers;
};

static enum tt_err read_tensor(struct tt_onnx_walk *walk, struct tt_onnx_span bytes,
                               struct tensor *out_tensor) {
    struct tensor tensor = {.count = 1, .product = 1};
    enum tt_err err = TT_OK;
    while (!err && bytes.at < bytes.end) {
        struct tt_onnx_field field = {0};
        err = tt_onnx_next_field(walk, &bytes, &field);
        if (err)
            return err;
        switch (field.number) {
        case TENSOR_DIM: err = multiply(walk, &field, &tensor.count); break;
        case TENSOR_TYPE: tensor.element = field.value; break;
        case TENSOR_NAME: tensor.name = field.bytes; break;
        case TENSOR_RAW: tensor.raw = field.bytes; break;
        case TENSOR_INT64:
            tensor.has_integers = true;
            err = multiply(walk, &field, &tensor.product);
            break;
        default: break;
        }
    }
    size_t raw_bytes = tt_onnx_span_length(tensor.raw);
    if (!tensor.has_integers && raw_bytes > 0 && raw_bytes <= MAX_SHAPE_BYTES &&
        tt_onnx_dtype((int32_t)(tensor.element & INT32_MAX)) == TT_DTYPE_INT64) {
        for (size_t i = 0; i + sizeof(int64_t) <= raw_bytes; i += sizeof(int64_t)) {
            int64_t value;
            memcpy(&value, tensor.raw.at + i, sizeof(value));
            tensor.product = times(tensor.product, value);
        }
        tensor.has_integers = true;
    }
    *out_tensor = tensor;
    return err;
}

/* A tensor of weights, which is a constant named `name` (NULL: as it says itself). */
static enum tt_err take_weights(struct tt_onnx_walk *walk, struct tt_onnx_span bytes,
                                const struct tt_onnx_span *name) {
    struct estimate *self = walk->context;
    struct tensor tensor;
    enum tt_err err = read_tensor(walk, bytes, &tensor);
    if (err)
        return err;
    if (!self->is_second)
        self->memory->weight_bytes =
            plus(self->memory->weight_bytes, times(tensor.count, element_bytes(tensor.element)));
    return tensor.has_integers ? add_constant(walk, name ? *name : tensor.name, tensor.product)
                               : TT_OK;
}

/* ---- nodes ---- */

enum { MAX_INPUTS = 2 };

struct node {
    struct tt_onnx_span op, name, output, inputs[MAX_INPUTS];
    int32_t input_count;
    struct tt_onnx_span value; /* the attribute "value", a tensor */
    int64_t shape_product;     /* of the attribute "shape"; -1: there is none */
    uint64_t element;          /* of the attribute "dtype" */
};

static bool is_text(struct tt_onnx_span span, const char *text) {
    return tt_onnx_span_length(span) == strlen(text) && memcmp(span.at, text, strlen(text)) == 0;
}

static enum tt_err read_graph(struct tt_onnx_walk *walk, struct tt_onnx_span graph);

static enum tt_err read_inner(struct tt_onnx_walk *walk, struct tt_onnx_span graph) {
    struct estimate *self = walk->context;
    if (self->depth == MAX_DEPTH)
        return tt_onnx_damaged(walk, graph.at, "graphs are nested too deeply");
    self->depth++;
    enum tt_err err = read_graph(walk, graph);
    self->depth--;
    return err;
}

static enum tt_err read_attribute(struct tt_onnx_walk *walk, struct tt_onnx_span bytes,
                                  struct node *node) {
    struct tt_onnx_span name = {0}, tensor = {0};
    int64_t product = 1;
    uint64_t number = 0;
    bool has_integers = false;
    enum tt_err err = TT_OK;
    while (!err && bytes.at < bytes.end) {
        struct tt_onnx_field field = {0};
        err = tt_onnx_next_field(walk, &bytes, &field);
        if (err)
            return err;
        bool has_bytes = field.wire_type == TT_ONNX_WIRE_BYTES;
        switch (field.number) {
        case ATTRIBUTE_NAME: name = field.bytes; break;
        case ATTRIBUTE_INTEGER: number = field.value; break;
        case ATTRIBUTE_TENSOR: tensor = field.bytes; break;
        case ATTRIBUTE_INTEGERS:
            has_integers = true;
            err = multiply(walk, &field, &product);
            break;
        case ATTRIBUTE_GRAPH:
        case ATTRIBUTE_GRAPHS:
            if (has_bytes)
                err = read_inner(walk, field.bytes);
            break;
        default: break;
        }
    }
    if (is_text(name, "value"))
        node->value = tensor;
    else if (is_text(name, "dtype"))
        node->element = number;
    else if (has_integers && (is_text(name, "shape") || is_text(name, "value_ints")))
        node->shape_product = product;
    return err;
}

/* What the node makes, if its shape is a constant. */
static enum tt_err judge(struct tt_onnx_walk *walk, const struct node *node) {
    struct estimate *self = walk->context;
    int64_t count = -1, bytes = 1;
    enum tt_err err = TT_OK;
    if (is_text(node->op, "Constant")) {
        if (node->value.at)
            return take_weights(walk, node->value, &node->output);
        return node->shape_product >= 0 ? add_constant(walk, node->output, node->shape_product)
                                        : TT_OK;
    }
    if (!self->is_second)
        return TT_OK;
    if (is_text(node->op, "ConstantOfShape") && node->input_count > 0) {
        struct tensor value = {.element = 1};
        if (node->value.at)
            err = read_tensor(walk, node->value, &value);
        count = product_of(self, node->inputs[0]);
        bytes = element_bytes(value.element);
    } else if (is_text(node->op, "Expand") && node->input_count > 1) {
        count = product_of(self, node->inputs[1]);
    } else if (is_text(node->op, "RandomNormal") || is_text(node->op, "RandomUniform")) {
        count = node->shape_product;
        bytes = node->element ? element_bytes(node->element) : FLOAT_BYTES;
    }
    if (err || count <= 0)
        return err;
    char kind[32];
    snprintf(kind, sizeof(kind), "%.*s", (int)tt_onnx_span_length(node->op),
             (const char *)node->op.at);
    note(self, times(count, bytes), kind,
         tt_onnx_span_length(node->name) ? node->name : node->output, true);
    return TT_OK;
}

static enum tt_err read_node(struct tt_onnx_walk *walk, struct tt_onnx_span bytes) {
    struct node node = {.shape_product = -1};
    enum tt_err err = TT_OK;
    while (!err && bytes.at < bytes.end) {
        struct tt_onnx_field field = {0};
        err = tt_onnx_next_field(walk, &bytes, &field);
        if (err || field.wire_type != TT_ONNX_WIRE_BYTES)
            continue;
        switch (field.number) {
        case NODE_INPUT:
            if (node.input_count < MAX_INPUTS)
                node.inputs[node.input_count++] = field.bytes;
            break;
        case NODE_OUTPUT:
            if (!node.output.at)
                node.output = field.bytes;
            break;
        case NODE_NAME: node.name = field.bytes; break;
        case NODE_OP: node.op = field.bytes; break;
        case NODE_ATTRIBUTE: err = read_attribute(walk, field.bytes, &node); break;
        default: break;
        }
    }
    return err ? err : judge(walk, &node);
}

/* ---- annotated shapes ---- */

struct type {
    uint64_t element;
    struct tt_onnx_span shape;
};

struct dims {
    int64_t count; /* of elements so far */
    int32_t rank;
};

static enum tt_err take_dim(struct tt_onnx_walk *walk, struct tt_onnx_span bytes, void *target) {
    static const struct tt_onnx_rule rule = {DIM_VALUE, TT_ONNX_WIRE_NUMBER, 0, NULL};
    const struct estimate *self = walk->context;
    struct dims *dims = target;
    uint64_t size = 0; /* open */
    enum tt_err err = tt_onnx_read_fields(walk, bytes, &rule, 1, &size);
    if (size > 0 && size <= INT64_MAX)
        dims->count = times(dims->count, (int64_t)size);
    else if (dims->rank == 0)
        dims->count = times(dims->count, self->max_batch);
    dims->rank++;
    return err;
}

struct value {
    struct tt_onnx_span name, type;
};

static enum tt_err read_value(struct tt_onnx_walk *walk, struct tt_onnx_span bytes) {
    static const struct tt_onnx_rule value_rules[] = {
        TT_ONNX_BYTES(VALUE_NAME, struct value, name),
        TT_ONNX_BYTES(VALUE_TYPE, struct value, type)};
    static const struct tt_onnx_rule type_rule = {TYPE_TENSOR, TT_ONNX_WIRE_BYTES, 0, NULL};
    static const struct tt_onnx_rule tensor_rules[] = {
        TT_ONNX_NUMBER(TYPE_ELEMENT, struct type, element),
        TT_ONNX_BYTES(TYPE_SHAPE, struct type, shape)};
    static const struct tt_onnx_rule shape_rule = TT_ONNX_TAKE(SHAPE_DIM, take_dim);
    struct value value = {0};
    struct tt_onnx_span tensor = {0};
    struct type type = {0};
    struct dims dims = {.count = 1};
    enum tt_err err = tt_onnx_read_fields(walk, bytes, value_rules, TT_COUNT(value_rules), &value);
    if (!err)
        err = tt_onnx_read_fields(walk, value.type, &type_rule, 1, &tensor);
    if (!err)
        err = tt_onnx_read_fields(walk, tensor, tensor_rules, TT_COUNT(tensor_rules), &type);
    if (!err && type.shape.at)
        err = tt_onnx_read_fields(walk, type.shape, &shape_rule, 1, &dims);
    if (!err && type.shape.at)
        note(walk->context, times(dims.count, element_bytes(type.element)), "tensor", value.name,
             false);
    return err;
}

/* ---- the graph ---- */

static enum tt_err read_graph(struct tt_onnx_walk *walk, struct tt_onnx_span graph) {
    struct estimate *self = walk->context;
    enum tt_err err = TT_OK;
    for (int32_t node = 0; !err && graph.at < graph.end;) {
        struct tt_onnx_field field = {0};
        err = tt_onnx_next_field(walk, &graph, &field);
        if (err || field.wire_type != TT_ONNX_WIRE_BYTES)
            continue;
        switch (field.number) {
        case GRAPH_NODE:
            if (self->depth == 0)
                self->node = node;
            node++;
            err = read_node(walk, field.bytes);
            break;
        case GRAPH_INITIALIZER: err = take_weights(walk, field.bytes, NULL); break;
        case GRAPH_OUTPUT:
        case GRAPH_VALUE_INFO:
            if (self->is_second)
                err = read_value(walk, field.bytes);
            break;
        default: break;
        }
    }
    return err;
}

enum tt_err tt_onnx_memory_parse(const char *file_name, const void *bytes, size_t length,
                                 int32_t max_batch, struct tt_onnx_memory *out_memory,
                                 struct tt_error *why) {
    static const struct tt_onnx_rule graph_rule = {MODEL_GRAPH, TT_ONNX_WIRE_BYTES, 0, NULL};
    struct tt_onnx_memory memory = {0};
    struct estimate self = {.memory = &memory, .max_batch = max_batch};
    struct tt_onnx_walk walk = {
        .file_name = file_name, .start = bytes, .why = why, .context = &self};
    struct tt_onnx_span model = {walk.start, walk.start + length}, graph = {0};
    tt_assert(max_batch >= 1);
    enum tt_err err = tt_onnx_read_fields(&walk, model, &graph_rule, 1, &graph);
    if (!err)
        err = read_graph(&walk, graph);
    if (!err && self.constant_count > 1)
        qsort(self.constants, (size_t)self.constant_count, sizeof(*self.constants),
              compare_constants);
    self.is_second = true;
    if (!err)
        err = read_graph(&walk, graph);
    free(self.constants);
    if (!err)
        *out_memory = memory;
    return err;
}

enum tt_err tt_onnx_memory_read(const char *path, int32_t max_batch,
                                struct tt_onnx_memory *out_memory, struct tt_error *why) {
    struct tt_onnx_map map;
    enum tt_err err = tt_onnx_map_open(path, &map, why);
    if (err)
        return err;
    err = tt_onnx_memory_parse(path, map.bytes, map.length, max_batch, out_memory, why);
    tt_onnx_map_close(&map);
    return err;
}

enum tt_err tt_onnx_memory_check(const char *path, int32_t max_batch, int64_t limit_bytes,
                                 int64_t *out_bytes, struct tt_error *why) {
    struct tt_onnx_memory memory;
    enum tt_err err = tt_onnx_memory_read(path, max_batch, &memory, why);
    if (err)
        return err;
    *out_bytes = plus(memory.weight_bytes, memory.largest_bytes);
    if (*out_bytes <= limit_bytes)
        return TT_OK;
    if (!*memory.largest || memory.weight_bytes > limit_bytes)
        return tt_fail(TT_ERR_INVALID, why,
                       "%s: the weights take %lld bytes, more than the limit of %lld for a model "
                       "(--max-model-bytes)",
                       path, (long long)memory.weight_bytes, (long long)limit_bytes);
    return tt_fail(TT_ERR_INVALID, why,
                   "%s: %s takes %lld bytes and the weights take %lld, together more than the "
                   "limit of %lld for a model (--max-model-bytes)",
                   path, memory.largest, (long long)memory.largest_bytes,
                   (long long)memory.weight_bytes, (long long)limit_bytes);
}
