#include "model/onnx/onnx_file.h"

#include "base/array.h"
#include "model/onnx/onnx_graph.h"
#include "model/onnx/onnx_walk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Field numbers of onnx.proto. */
enum {
    MODEL_IR_VERSION = 1,
    MODEL_GRAPH = 7,
    MODEL_OPSET_IMPORT = 8,
    OPSET_DOMAIN = 1,
    OPSET_VERSION = 2,
    GRAPH_INITIALIZER = 5,
    GRAPH_INPUT = 11,
    GRAPH_OUTPUT = 12,
    GRAPH_SPARSE_INITIALIZER = 15,
    TENSOR_NAME = 8,
    TENSOR_EXTERNAL_DATA = 13,
    PAIR_KEY = 1,
    PAIR_VALUE = 2,
    SPARSE_VALUES = 1,
    VALUE_NAME = 1,
    VALUE_TYPE = 2,
    TYPE_TENSOR = 1,
    TYPE_SEQUENCE = 4,
    TYPE_MAP = 5,
    TYPE_SPARSE_TENSOR = 8,
    TYPE_OPTIONAL = 9,
    TENSOR_TYPE_ELEMENT = 1,
    TENSOR_TYPE_SHAPE = 2,
    SHAPE_DIM = 1,
    DIM_VALUE = 1,
    DIM_NAME = 2,
};

/* What is known while a file is read. */
struct reading {
    struct tt_onnx_span *initializers; /* names, sorted */
    size_t initializer_count;
    int64_t initializer_capacity;
    struct tt_onnx_file *file;
};

static int compare_names(const void *left, const void *right) {
    const struct tt_onnx_span *a = left, *b = right;
    size_t length_a = tt_onnx_span_length(*a), length_b = tt_onnx_span_length(*b);
    size_t shorter = length_a < length_b ? length_a : length_b;
    int order = shorter ? memcmp(a->at, b->at, shorter) : 0;
    if (order != 0)
        return order;
    return length_a < length_b ? -1 : length_a > length_b;
}

/* ---- weights ---- */

struct pair {
    struct tt_onnx_span key, value;
};

static enum tt_err note_external(struct tt_onnx_walk *walk, struct tt_onnx_span bytes,
                                 void *target) {
    (void)target;
    static const struct tt_onnx_rule rules[] = {TT_ONNX_BYTES(PAIR_KEY, struct pair, key),
                                                TT_ONNX_BYTES(PAIR_VALUE, struct pair, value)};
    static const char location[] = "location";
    struct pair pair = {0};
    enum tt_err err = tt_onnx_read_fields(walk, bytes, rules, TT_COUNT(rules), &pair);
    if (err || tt_onnx_span_length(pair.key) != strlen(location) ||
        memcmp(pair.key.at, location, strlen(location)) != 0)
        return err;
    struct tt_onnx_span value = pair.value;
    struct tt_onnx_file *file = ((struct reading *)walk->context)->file;
    size_t length = tt_onnx_span_length(value);
    if (length == 0 || length >= TT_MAX_NAME_BYTES || memchr(value.at, '\0', length))
        return tt_onnx_damaged(walk, length == 0 ? bytes.at : value.at,
                               "the name of a file of weights is not valid");
    for (int32_t i = 0; i < file->external_count; i++)
        if (strlen(file->externals[i]) == length &&
            memcmp(file->externals[i], value.at, length) == 0)
            return TT_OK;
    if (file->external_count == TT_ONNX_MAX_EXTERNALS)
        return tt_fail(TT_ERR_UNSUPPORTED, walk->why,
                       "%s: the weights are in more than %d other files", walk->file_name,
                       TT_ONNX_MAX_EXTERNALS);
    memcpy(file->externals[file->external_count++], value.at, length);
    return TT_OK;
}

static enum tt_err note_initializer(struct tt_onnx_walk *walk, struct tt_onnx_span tensor,
                                    void *target) {
    (void)target;
    static const struct tt_onnx_rule rules[] = {{TENSOR_NAME, TT_ONNX_WIRE_BYTES, 0, NULL},
                                                TT_ONNX_TAKE(TENSOR_EXTERNAL_DATA, note_external)};
    struct tt_onnx_span name = {0};
    enum tt_err err = tt_onnx_read_fields(walk, tensor, rules, TT_COUNT(rules), &name);
    if (err)
        return err;
    struct reading *reading = walk->context;
    if (tt_onnx_span_length(name) == 0)
        return TT_OK;
    if (reading->initializer_count == TT_ONNX_MAX_CONSTANTS)
        return tt_fail(TT_ERR_UNSUPPORTED, walk->why, "%s: more than %d initializers",
                       walk->file_name, (int)TT_ONNX_MAX_CONSTANTS);
    if (!TT_ARRAY_RESERVE(reading->initializers, &reading->initializer_capacity,
                          (int64_t)reading->initializer_count + 1))
        return tt_fail(TT_ERR_NO_MEMORY, walk->why, "%s: out of memory", walk->file_name);
    reading->initializers[reading->initializer_count++] = name;
    return TT_OK;
}

static enum tt_err note_sparse(struct tt_onnx_walk *walk, struct tt_onnx_span tensor,
                               void *target) {
    static const struct tt_onnx_rule rule = TT_ONNX_TAKE(SPARSE_VALUES, note_initializer);
    return tt_onnx_read_fields(walk, tensor, &rule, 1, target);
}

static enum tt_err collect_initializers(struct tt_onnx_walk *walk, struct tt_onnx_span graph) {
    static const struct tt_onnx_rule rules[] = {
        TT_ONNX_TAKE(GRAPH_INITIALIZER, note_initializer),
        TT_ONNX_TAKE(GRAPH_SPARSE_INITIALIZER, note_sparse)};
    enum tt_err err = tt_onnx_read_fields(walk, graph, rules, TT_COUNT(rules), NULL);
    struct reading *reading = walk->context;
    if (reading->initializer_count > 1)
        qsort(reading->initializers, reading->initializer_count, sizeof(*reading->initializers),
              compare_names);
    return err;
}

/* ---- inputs and outputs ---- */

struct dim {
    uint64_t size; /* of two's complement */
    struct tt_onnx_span name;
};

/* Size and name exclude each other: the last one counts. */
static enum tt_err take_dim_name(struct tt_onnx_walk *walk, struct tt_onnx_span name,
                                 void *target) {
    (void)walk;
    *(struct dim *)target = (struct dim){.size = UINT64_MAX, .name = name};
    return TT_OK;
}

static enum tt_err read_dim(struct tt_onnx_walk *walk, struct tt_onnx_span bytes, void *target) {
    static const struct tt_onnx_rule rules[] = {TT_ONNX_NUMBER(DIM_VALUE, struct dim, size),
                                                TT_ONNX_TAKE(DIM_NAME, take_dim_name)};
    struct tt_onnx_value *value = target;
    struct tt_shape *shape = &value->spec.shape;
    if (shape->rank == TT_MAX_RANK)
        return tt_fail(TT_ERR_UNSUPPORTED, walk->why,
                       "%s: tensor '%s' has more than the %d dimensions that Tutti carries",
                       walk->file_name, value->spec.name, TT_MAX_RANK);
    struct dim dim = {.size = UINT64_MAX};
    enum tt_err err = tt_onnx_read_fields(walk, bytes, rules, TT_COUNT(rules), &dim);
    if (err)
        return err;
    if (shape->rank == 0 && dim.name.at)
        snprintf(value->batch_name, sizeof(value->batch_name), "%.*s",
                 (int)tt_onnx_span_length(dim.name), (const char *)dim.name.at);
    shape->dims[shape->rank++] = (int64_t)dim.size < 0 ? -1 : (int64_t)dim.size;
    return TT_OK;
}

struct tensor_type {
    uint64_t element;
    struct tt_onnx_span shape;
};

static enum tt_err read_tensor_type(struct tt_onnx_walk *walk, struct tt_onnx_span bytes,
                                    struct tt_onnx_value *value) {
    static const struct tt_onnx_rule rules[] = {
        TT_ONNX_NUMBER(TENSOR_TYPE_ELEMENT, struct tensor_type, element),
        TT_ONNX_BYTES(TENSOR_TYPE_SHAPE, struct tensor_type, shape)};
    static const struct tt_onnx_rule shape_rule = TT_ONNX_TAKE(SHAPE_DIM, read_dim);
    struct tensor_type type = {0};
    enum tt_err err = tt_onnx_read_fields(walk, bytes, rules, TT_COUNT(rules), &type);
    value->has_shape = type.shape.at != NULL;
    if (!err && value->has_shape)
        err = tt_onnx_read_fields(walk, type.shape, &shape_rule, 1, value);
    if (err)
        return err;
    uint64_t element = type.element;
    value->spec.dtype = element <= INT32_MAX ? tt_onnx_dtype((int32_t)element) : TT_DTYPE_NONE;
    if (value->spec.dtype == TT_DTYPE_NONE)
        return tt_fail(TT_ERR_UNSUPPORTED, walk->why,
                       "%s: tensor '%s' has ONNX element type %llu, which the inference protocol "
                       "has no name for",
                       walk->file_name, value->spec.name, (unsigned long long)element);
    return TT_OK;
}

/* What a type may be besides a tensor. */
static const char *const refused[] = {"a sequence", "a map", "a sparse tensor", "an optional"};

struct type {
    struct tt_onnx_span tensor, refused[TT_COUNT(refused)];
};

static enum tt_err read_type(struct tt_onnx_walk *walk, struct tt_onnx_span bytes,
                             struct tt_onnx_value *value) {
    static const struct tt_onnx_rule rules[] = {
        TT_ONNX_BYTES(TYPE_TENSOR, struct type, tensor),
        TT_ONNX_BYTES(TYPE_SEQUENCE, struct type, refused[0]),
        TT_ONNX_BYTES(TYPE_MAP, struct type, refused[1]),
        TT_ONNX_BYTES(TYPE_SPARSE_TENSOR, struct type, refused[2]),
        TT_ONNX_BYTES(TYPE_OPTIONAL, struct type, refused[3])};
    struct type type = {0};
    enum tt_err err = tt_onnx_read_fields(walk, bytes, rules, TT_COUNT(rules), &type);
    for (size_t i = 0; !err && i < TT_COUNT(refused); i++)
        if (type.refused[i].at)
            err = tt_fail(TT_ERR_UNSUPPORTED, walk->why,
                          "%s: '%s' is %s; only dense tensors can go in and out of a served "
                          "model%s",
                          walk->file_name, value->spec.name, refused[i],
                          i < 2 ? " (skl2onnx: convert with options={'zipmap': False})" : "");
    if (err)
        return err;
    if (!type.tensor.at)
        return tt_fail(TT_ERR_INVALID, walk->why, "%s: '%s' has no type", walk->file_name,
                       value->spec.name);
    return read_tensor_type(walk, type.tensor, value);
}

static enum tt_err read_name(struct tt_onnx_walk *walk, struct tt_onnx_span name, const char *role,
                             struct tt_onnx_value *value) {
    size_t length = tt_onnx_span_length(name);
    if (length == 0 || length >= TT_MAX_NAME_BYTES)
        return tt_fail(TT_ERR_INVALID, walk->why,
                       "%s: an %s of the graph has a name of %zu bytes; 1 to %d are possible",
                       walk->file_name, role, length, TT_MAX_NAME_BYTES - 1);
    if (memchr(name.at, '\0', length))
        return tt_fail(TT_ERR_INVALID, walk->why,
                       "%s: an %s of the graph has a zero byte in its name", walk->file_name, role);
    memcpy(value->spec.name, name.at, length);
    return TT_OK;
}

/* All inputs or all outputs. */
struct side {
    const char *role;
    bool is_input;
    struct tt_onnx_value *values;
    int32_t count;
};

struct value {
    struct tt_onnx_span name, type;
};

static enum tt_err read_value(struct tt_onnx_walk *walk, struct tt_onnx_span bytes, void *target) {
    static const struct tt_onnx_rule rules[] = {TT_ONNX_BYTES(VALUE_NAME, struct value, name),
                                                TT_ONNX_BYTES(VALUE_TYPE, struct value, type)};
    const struct reading *reading = walk->context;
    struct side *side = target;
    struct value given = {0};
    enum tt_err err = tt_onnx_read_fields(walk, bytes, rules, TT_COUNT(rules), &given);
    if (err)
        return err;
    if (side->is_input && reading->initializer_count > 0 &&
        bsearch(&given.name, reading->initializers, reading->initializer_count, sizeof(given.name),
                compare_names))
        return TT_OK;
    if (side->count == TT_MAX_TENSORS)
        return tt_fail(TT_ERR_UNSUPPORTED, walk->why, "%s: more than the %d %ss that Tutti carries",
                       walk->file_name, TT_MAX_TENSORS, side->role);
    struct tt_onnx_value *value = &side->values[side->count];
    err = read_name(walk, given.name, side->role, value);
    if (!err)
        err = read_type(walk, given.type, value);
    for (int32_t i = 0; !err && i < side->count; i++)
        if (strcmp(side->values[i].spec.name, value->spec.name) == 0)
            err = tt_fail(TT_ERR_INVALID, walk->why, "%s: two %ss are named '%s'", walk->file_name,
                          side->role, value->spec.name);
    side->count += !err;
    return err;
}

static enum tt_err read_graph(struct tt_onnx_walk *walk, struct tt_onnx_span graph, void *target) {
    static const struct tt_onnx_rule input_rule = TT_ONNX_TAKE(GRAPH_INPUT, read_value);
    static const struct tt_onnx_rule output_rule = TT_ONNX_TAKE(GRAPH_OUTPUT, read_value);
    struct tt_onnx_file *file = target;
    struct side inputs = {.role = "input", .is_input = true, .values = file->inputs};
    struct side outputs = {.role = "output", .values = file->outputs};
    if (file->output_count > 0)
        return tt_onnx_damaged(walk, graph.at, "a second graph begins");
    enum tt_err err = collect_initializers(walk, graph);
    if (!err)
        err = tt_onnx_read_fields(walk, graph, &input_rule, 1, &inputs);
    if (!err)
        err = tt_onnx_read_fields(walk, graph, &output_rule, 1, &outputs);
    if (!err && outputs.count == 0)
        err = tt_fail(TT_ERR_INVALID, walk->why, "%s: the graph has no output", walk->file_name);
    file->input_count = inputs.count;
    file->output_count = outputs.count;
    return err;
}

/* ---- the whole file ---- */

struct opset {
    struct tt_onnx_span domain;
    uint64_t version;
};

static enum tt_err read_opset(struct tt_onnx_walk *walk, struct tt_onnx_span bytes, void *target) {
    static const struct tt_onnx_rule rules[] = {
        TT_ONNX_BYTES(OPSET_DOMAIN, struct opset, domain),
        TT_ONNX_NUMBER(OPSET_VERSION, struct opset, version)};
    static const char default_value[] = "ai.onnx";
    struct opset opset = {0};
    enum tt_err err = tt_onnx_read_fields(walk, bytes, rules, TT_COUNT(rules), &opset);
    size_t length = tt_onnx_span_length(opset.domain);
    if (!err && (length == 0 || (length == sizeof(default_value) - 1 &&
                                 memcmp(opset.domain.at, default_value, length) == 0)))
        ((struct tt_onnx_file *)target)->opset = (int64_t)opset.version;
    return err;
}

static enum tt_err read_model(struct tt_onnx_walk *walk, struct tt_onnx_span model,
                              struct tt_onnx_file *file) {
    static const struct tt_onnx_rule rules[] = {
        TT_ONNX_NUMBER(MODEL_IR_VERSION, struct tt_onnx_file, ir_version),
        TT_ONNX_TAKE(MODEL_OPSET_IMPORT, read_opset), TT_ONNX_TAKE(MODEL_GRAPH, read_graph)};
    enum tt_err err = tt_onnx_read_fields(walk, model, rules, TT_COUNT(rules), file);
    if (!err && file->output_count == 0)
        err = tt_fail(TT_ERR_INVALID, walk->why, "%s: not an ONNX model: it holds no graph",
                      walk->file_name);
    return err;
}

enum tt_err tt_onnx_file_parse(const char *file_name, const void *bytes, size_t length,
                               struct tt_onnx_file **out_file, struct tt_error *why) {
    struct reading reading = {0};
    struct tt_onnx_walk walk = {
        .file_name = file_name, .start = bytes, .why = why, .context = &reading};
    if (length == 0)
        return tt_fail(TT_ERR_INVALID, why, "%s: the file is empty", file_name);
    struct tt_onnx_file *file = calloc(1, sizeof(*file));
    if (!file)
        return tt_fail(TT_ERR_NO_MEMORY, why, "%s: out of memory", file_name);
    const uint8_t *start = bytes;
    reading.file = file;
    enum tt_err err = read_model(&walk, (struct tt_onnx_span){start, start + length}, file);
    free(reading.initializers);
    if (err) {
        free(file);
        return err;
    }
    *out_file = file;
    return TT_OK;
}

enum tt_err tt_onnx_file_read(const char *path, struct tt_onnx_file **out_file,
                              struct tt_error *why) {
    struct tt_onnx_map map;
    enum tt_err err = tt_onnx_map_open(path, &map, why);
    if (err)
        return err;
    err = tt_onnx_file_parse(path, map.bytes, map.length, out_file, why);
    tt_onnx_map_close(&map);
    return err;
}
