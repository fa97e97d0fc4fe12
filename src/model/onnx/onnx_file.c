#include "model/onnx/onnx_file.h"

#include "base/array.h"
#include "base/regular_file.h"
#include "base/varint.h"
#include "model/onnx/onnx_graph.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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

enum { WIRE_NUMBER = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

struct span {
    const uint8_t *at, *end; /* both NULL: there is none */
};

struct walk {
    const char *file_name;
    const uint8_t *start;
    struct tt_error *why;
    struct span *initializers; /* names, sorted */
    size_t initializer_count;
    int64_t initializer_capacity;
    struct tt_onnx_file *file;
};

struct field {
    uint32_t number;
    uint32_t wire_type;
    uint64_t value;    /* if a varint */
    struct span bytes; /* otherwise */
};

static enum tt_err damaged(const struct walk *walk, const uint8_t *at, const char *what) {
    return tt_fail(TT_ERR_INVALID, walk->why, "%s: not a readable ONNX file: at byte %zu %s",
                   walk->file_name, (size_t)(at - walk->start), what);
}

/* Reads the next field of a message; `span` moves past it. */
static enum tt_err next_field(const struct walk *walk, struct span *span, struct field *out) {
    const uint8_t *start = span->at;
    uint64_t key, size;
    if (!tt_varint_get(&span->at, span->end, &key) || key > UINT32_MAX || key >> 3 == 0)
        return damaged(walk, start, "there is no field");
    *out = (struct field){.number = (uint32_t)(key >> 3), .wire_type = (uint32_t)(key & 7)};
    switch (out->wire_type) {
    case WIRE_NUMBER:
        if (!tt_varint_get(&span->at, span->end, &out->value))
            return damaged(walk, start, "a number is cut off");
        return TT_OK;
    case WIRE_64: size = 8; break;
    case WIRE_32: size = 4; break;
    case WIRE_BYTES:
        if (!tt_varint_get(&span->at, span->end, &size))
            return damaged(walk, start, "a length is cut off");
        break;
    default: return damaged(walk, start, "a field has an unknown wire type");
    }
    uint64_t left = (uint64_t)(span->end - span->at);
    if (size > left)
        return tt_fail(TT_ERR_INVALID, walk->why,
                       "%s: not a readable ONNX file: field %u at byte %zu claims %llu bytes, but "
                       "only %llu are left; is the file cut short?",
                       walk->file_name, out->number, (size_t)(start - walk->start),
                       (unsigned long long)size, (unsigned long long)left);
    out->bytes = (struct span){span->at, span->at + size};
    span->at += size;
    return TT_OK;
}

/* A field that is read. Its bytes go to `take`; without it, its value (a uint64_t or a struct span)
 * is stored at `offset` of the target, the last one if the field is repeated. */
struct rule {
    uint32_t number;
    uint32_t wire_type; /* another one means that this is not an ONNX file */
    size_t offset;
    enum tt_err (*take)(struct walk *walk, struct span bytes, void *target);
};

#define NUMBER(number, type, member)                                                               \
    { number, WIRE_NUMBER, offsetof(type, member), NULL }
#define BYTES(number, type, member)                                                                \
    { number, WIRE_BYTES, offsetof(type, member), NULL }
#define TAKE(number, function)                                                                     \
    { number, WIRE_BYTES, 0, function }

static enum tt_err apply(struct walk *walk, const struct rule *rule, const struct field *field,
                         struct span after, void *target) {
    if (field->wire_type != rule->wire_type)
        return damaged(walk, after.at, "a field has the wrong type");
    if (rule->take)
        return rule->take(walk, field->bytes, target);
    if (rule->wire_type == WIRE_NUMBER)
        memcpy((char *)target + rule->offset, &field->value, sizeof(field->value));
    else
        memcpy((char *)target + rule->offset, &field->bytes, sizeof(field->bytes));
    return TT_OK;
}

/* Reads the fields of `message` that have a rule, in the order of the file. */
static enum tt_err read_fields(struct walk *walk, struct span message, const struct rule *rules,
                               size_t count, void *target) {
    enum tt_err err = TT_OK;
    while (!err && message.at < message.end) {
        struct field field = {0};
        err = next_field(walk, &message, &field);
        for (size_t i = 0; !err && i < count; i++)
            if (rules[i].number == field.number)
                err = apply(walk, &rules[i], &field, message, target);
    }
    return err;
}

static size_t span_length(struct span span) { return (size_t)(span.end - span.at); }

static int compare_spans(const void *left, const void *right) {
    const struct span *a = left, *b = right;
    size_t length_a = span_length(*a), length_b = span_length(*b);
    size_t shorter = length_a < length_b ? length_a : length_b;
    int order = shorter ? memcmp(a->at, b->at, shorter) : 0;
    if (order != 0)
        return order;
    return length_a < length_b ? -1 : length_a > length_b;
}

/* ---- weights ---- */

struct pair {
    struct span key, value;
};

static enum tt_err note_external(struct walk *walk, struct span bytes, void *target) {
    (void)target;
    static const struct rule rules[] = {BYTES(PAIR_KEY, struct pair, key),
                                        BYTES(PAIR_VALUE, struct pair, value)};
    static const char location[] = "location";
    struct pair pair = {0};
    enum tt_err err = read_fields(walk, bytes, rules, TT_COUNT(rules), &pair);
    if (err || span_length(pair.key) != strlen(location) ||
        memcmp(pair.key.at, location, strlen(location)) != 0)
        return err;
    struct span value = pair.value;
    struct tt_onnx_file *file = walk->file;
    size_t length = span_length(value);
    if (length == 0 || length >= TT_MAX_NAME_BYTES || memchr(value.at, '\0', length))
        return damaged(walk, length == 0 ? bytes.at : value.at,
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

static enum tt_err note_initializer(struct walk *walk, struct span tensor, void *target) {
    (void)target;
    static const struct rule rules[] = {{TENSOR_NAME, WIRE_BYTES, 0, NULL},
                                        TAKE(TENSOR_EXTERNAL_DATA, note_external)};
    struct span name = {0};
    enum tt_err err = read_fields(walk, tensor, rules, TT_COUNT(rules), &name);
    if (err)
        return err;
    if (!TT_ARRAY_RESERVE(walk->initializers, &walk->initializer_capacity,
                          (int64_t)walk->initializer_count + 1))
        return tt_fail(TT_ERR_NO_MEMORY, walk->why, "%s: out of memory", walk->file_name);
    walk->initializers[walk->initializer_count++] = name;
    return TT_OK;
}

static enum tt_err note_sparse(struct walk *walk, struct span tensor, void *target) {
    static const struct rule rule = TAKE(SPARSE_VALUES, note_initializer);
    return read_fields(walk, tensor, &rule, 1, target);
}

static enum tt_err collect_initializers(struct walk *walk, struct span graph) {
    static const struct rule rules[] = {TAKE(GRAPH_INITIALIZER, note_initializer),
                                        TAKE(GRAPH_SPARSE_INITIALIZER, note_sparse)};
    enum tt_err err = read_fields(walk, graph, rules, TT_COUNT(rules), NULL);
    if (walk->initializer_count > 1)
        qsort(walk->initializers, walk->initializer_count, sizeof(*walk->initializers),
              compare_spans);
    return err;
}

/* ---- inputs and outputs ---- */

struct dim {
    uint64_t size; /* of two's complement */
    struct span name;
};

/* Size and name exclude each other: the last one counts. */
static enum tt_err take_dim_name(struct walk *walk, struct span name, void *target) {
    (void)walk;
    *(struct dim *)target = (struct dim){.size = UINT64_MAX, .name = name};
    return TT_OK;
}

static enum tt_err read_dim(struct walk *walk, struct span bytes, void *target) {
    static const struct rule rules[] = {NUMBER(DIM_VALUE, struct dim, size),
                                        TAKE(DIM_NAME, take_dim_name)};
    struct tt_onnx_value *value = target;
    struct tt_shape *shape = &value->spec.shape;
    if (shape->rank == TT_MAX_RANK)
        return tt_fail(TT_ERR_UNSUPPORTED, walk->why,
                       "%s: tensor '%s' has more than the %d dimensions that Tutti carries",
                       walk->file_name, value->spec.name, TT_MAX_RANK);
    struct dim dim = {.size = UINT64_MAX};
    enum tt_err err = read_fields(walk, bytes, rules, TT_COUNT(rules), &dim);
    if (err)
        return err;
    if (shape->rank == 0 && dim.name.at)
        snprintf(value->batch_name, sizeof(value->batch_name), "%.*s", (int)span_length(dim.name),
                 (const char *)dim.name.at);
    shape->dims[shape->rank++] = (int64_t)dim.size < 0 ? -1 : (int64_t)dim.size;
    return TT_OK;
}

struct tensor_type {
    uint64_t element;
    struct span shape;
};

static enum tt_err read_tensor_type(struct walk *walk, struct span bytes,
                                    struct tt_onnx_value *value) {
    static const struct rule rules[] = {NUMBER(TENSOR_TYPE_ELEMENT, struct tensor_type, element),
                                        BYTES(TENSOR_TYPE_SHAPE, struct tensor_type, shape)};
    static const struct rule shape_rule = TAKE(SHAPE_DIM, read_dim);
    struct tensor_type type = {0};
    enum tt_err err = read_fields(walk, bytes, rules, TT_COUNT(rules), &type);
    value->has_shape = type.shape.at != NULL;
    if (!err && value->has_shape)
        err = read_fields(walk, type.shape, &shape_rule, 1, value);
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
    struct span tensor, refused[TT_COUNT(refused)];
};

static enum tt_err read_type(struct walk *walk, struct span bytes, struct tt_onnx_value *value) {
    static const struct rule rules[] = {BYTES(TYPE_TENSOR, struct type, tensor),
                                        BYTES(TYPE_SEQUENCE, struct type, refused[0]),
                                        BYTES(TYPE_MAP, struct type, refused[1]),
                                        BYTES(TYPE_SPARSE_TENSOR, struct type, refused[2]),
                                        BYTES(TYPE_OPTIONAL, struct type, refused[3])};
    struct type type = {0};
    enum tt_err err = read_fields(walk, bytes, rules, TT_COUNT(rules), &type);
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

static enum tt_err read_name(struct walk *walk, struct span name, const char *role,
                             struct tt_onnx_value *value) {
    size_t length = span_length(name);
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
    struct span name, type;
};

static enum tt_err read_value(struct walk *walk, struct span bytes, void *target) {
    static const struct rule rules[] = {BYTES(VALUE_NAME, struct value, name),
                                        BYTES(VALUE_TYPE, struct value, type)};
    struct side *side = target;
    struct value given = {0};
    enum tt_err err = read_fields(walk, bytes, rules, TT_COUNT(rules), &given);
    if (err)
        return err;
    if (side->is_input && walk->initializer_count > 0 &&
        bsearch(&given.name, walk->initializers, walk->initializer_count, sizeof(given.name),
                compare_spans))
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

static enum tt_err read_graph(struct walk *walk, struct span graph, void *target) {
    static const struct rule input_rule = TAKE(GRAPH_INPUT, read_value);
    static const struct rule output_rule = TAKE(GRAPH_OUTPUT, read_value);
    struct tt_onnx_file *file = target;
    struct side inputs = {.role = "input", .is_input = true, .values = file->inputs};
    struct side outputs = {.role = "output", .values = file->outputs};
    if (file->output_count > 0)
        return damaged(walk, graph.at, "a second graph begins");
    enum tt_err err = collect_initializers(walk, graph);
    if (!err)
        err = read_fields(walk, graph, &input_rule, 1, &inputs);
    if (!err)
        err = read_fields(walk, graph, &output_rule, 1, &outputs);
    if (!err && outputs.count == 0)
        err = tt_fail(TT_ERR_INVALID, walk->why, "%s: the graph has no output", walk->file_name);
    file->input_count = inputs.count;
    file->output_count = outputs.count;
    return err;
}

/* ---- the whole file ---- */

struct opset {
    struct span domain;
    uint64_t version;
};

static enum tt_err read_opset(struct walk *walk, struct span bytes, void *target) {
    static const struct rule rules[] = {BYTES(OPSET_DOMAIN, struct opset, domain),
                                        NUMBER(OPSET_VERSION, struct opset, version)};
    static const char default_value[] = "ai.onnx";
    struct opset opset = {0};
    enum tt_err err = read_fields(walk, bytes, rules, TT_COUNT(rules), &opset);
    size_t length = span_length(opset.domain);
    if (!err && (length == 0 || (length == sizeof(default_value) - 1 &&
                                 memcmp(opset.domain.at, default_value, length) == 0)))
        ((struct tt_onnx_file *)target)->opset = (int64_t)opset.version;
    return err;
}

static enum tt_err read_model(struct walk *walk, struct span model, struct tt_onnx_file *file) {
    static const struct rule rules[] = {NUMBER(MODEL_IR_VERSION, struct tt_onnx_file, ir_version),
                                        TAKE(MODEL_OPSET_IMPORT, read_opset),
                                        TAKE(MODEL_GRAPH, read_graph)};
    enum tt_err err = read_fields(walk, model, rules, TT_COUNT(rules), file);
    if (!err && file->output_count == 0)
        err = tt_fail(TT_ERR_INVALID, walk->why, "%s: not an ONNX model: it holds no graph",
                      walk->file_name);
    return err;
}

enum tt_err tt_onnx_file_parse(const char *file_name, const void *bytes, size_t length,
                               struct tt_onnx_file **out_file, struct tt_error *why) {
    struct walk walk = {.file_name = file_name, .start = bytes, .why = why};
    if (length == 0)
        return tt_fail(TT_ERR_INVALID, why, "%s: the file is empty", file_name);
    struct tt_onnx_file *file = calloc(1, sizeof(*file));
    if (!file)
        return tt_fail(TT_ERR_NO_MEMORY, why, "%s: out of memory", file_name);
    const uint8_t *start = bytes;
    walk.file = file;
    enum tt_err err = read_model(&walk, (struct span){start, start + length}, file);
    free(walk.initializers);
    if (err) {
        free(file);
        return err;
    }
    *out_file = file;
    return TT_OK;
}

enum tt_err tt_onnx_file_read(const char *path, struct tt_onnx_file **out_file,
                              struct tt_error *why) {
    int descriptor;
    enum tt_err err = tt_regular_file_open(path, &descriptor, why);
    if (err)
        return err;
    struct stat status;
    if (fstat(descriptor, &status) != 0)
        err = tt_fail(TT_ERR_IO, why, "%s: %s", path, strerror(errno));
    else if (status.st_size == 0)
        err = tt_fail(TT_ERR_INVALID, why, "%s: the file is empty", path);
    if (err) {
        close(descriptor);
        return err;
    }
    size_t length = (size_t)status.st_size;
    void *bytes = mmap(NULL, length, PROT_READ, MAP_PRIVATE, descriptor, 0);
    int map_errno = errno;
    close(descriptor);
    if (bytes == MAP_FAILED)
        return tt_fail(TT_ERR_IO, why, "%s: %s", path, strerror(map_errno));
    err = tt_onnx_file_parse(path, bytes, length, out_file, why);
    munmap(bytes, length);
    return err;
}
