#include "model/onnx/onnx_file.h"

#include <errno.h>
#include <fcntl.h>
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

struct span {
    const uint8_t *at, *end;
};

struct walk {
    const char *file_name;
    const uint8_t *start;
    struct tt_error *why;
    struct span *initializers; /* names, sorted */
    size_t initializer_count, initializer_capacity;
    struct tt_onnx_file *file;
};

struct field {
    uint32_t number;
    uint32_t wire_type;
    uint64_t value;    /* if a varint */
    struct span bytes; /* if length-delimited */
};

static enum tt_err damaged(const struct walk *walk, const uint8_t *at, const char *what) {
    return tt_fail(TT_ERR_INVALID, walk->why, "%s: not a readable ONNX file: at byte %zu %s",
                   walk->file_name, (size_t)(at - walk->start), what);
}

static bool read_varint(struct span *span, uint64_t *out) {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && span->at < span->end; shift += 7) {
        uint8_t byte = *span->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *out = value;
            return true;
        }
    }
    return false;
}

/* Reads the next field of a message; `span` moves past it. */
static enum tt_err next_field(const struct walk *walk, struct span *span, struct field *out) {
    const uint8_t *start = span->at;
    uint64_t key, size;
    if (!read_varint(span, &key) || key > UINT32_MAX || key >> 3 == 0)
        return damaged(walk, start, "there is no field");
    *out = (struct field){.number = (uint32_t)(key >> 3), .wire_type = (uint32_t)(key & 7)};
    switch (out->wire_type) {
    case 0:
        if (!read_varint(span, &out->value))
            return damaged(walk, start, "a number is cut off");
        return TT_OK;
    case 1: size = 8; break;
    case 5: size = 4; break;
    case 2:
        if (!read_varint(span, &size))
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

/* A known field number with another wire type means that this is not an ONNX file. */
static enum tt_err expect(const struct walk *walk, const struct field *field, uint32_t wire_type,
                          const struct span *after) {
    if (field->wire_type == wire_type)
        return TT_OK;
    return damaged(walk, after->at, "a field has the wrong type");
}

static size_t span_length(struct span span) { return (size_t)(span.end - span.at); }

static int compare_spans(const void *left, const void *right) {
    const struct span *a = left, *b = right;
    size_t length_a = span_length(*a), length_b = span_length(*b);
    int order = memcmp(a->at, b->at, length_a < length_b ? length_a : length_b);
    if (order != 0)
        return order;
    return length_a < length_b ? -1 : length_a > length_b;
}

/* The bytes of sub-field `number` of `message` (the last one if repeated); empty: there is none. */
static enum tt_err find_bytes(const struct walk *walk, struct span message, uint32_t number,
                              struct span *out) {
    struct span found = {message.end, message.end};
    while (message.at < message.end) {
        struct field field;
        enum tt_err err = next_field(walk, &message, &field);
        if (!err && field.number == number) {
            err = expect(walk, &field, 2, &message);
            found = field.bytes;
        }
        if (err)
            return err;
    }
    *out = found;
    return TT_OK;
}

static enum tt_err note_external(struct walk *walk, struct span pair) {
    static const char location[] = "location";
    struct span key, value;
    enum tt_err err = find_bytes(walk, pair, PAIR_KEY, &key);
    if (!err)
        err = find_bytes(walk, pair, PAIR_VALUE, &value);
    if (err || span_length(key) != strlen(location) ||
        memcmp(key.at, location, strlen(location)) != 0)
        return err;
    struct tt_onnx_file *file = walk->file;
    size_t length = span_length(value);
    if (length == 0 || length >= TT_MAX_NAME_BYTES || memchr(value.at, '\0', length))
        return damaged(walk, value.at, "the name of a file of weights is not valid");
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

static enum tt_err note_externals(struct walk *walk, struct span tensor) {
    enum tt_err err = TT_OK;
    while (!err && tensor.at < tensor.end) {
        struct field field;
        err = next_field(walk, &tensor, &field);
        if (!err && field.number == TENSOR_EXTERNAL_DATA) {
            err = expect(walk, &field, 2, &tensor);
            if (!err)
                err = note_external(walk, field.bytes);
        }
    }
    return err;
}

static enum tt_err note_initializer(struct walk *walk, struct span tensor) {
    struct span name;
    enum tt_err err = find_bytes(walk, tensor, TENSOR_NAME, &name);
    if (!err)
        err = note_externals(walk, tensor);
    if (err)
        return err;
    if (walk->initializer_count == walk->initializer_capacity) {
        size_t capacity = walk->initializer_capacity ? walk->initializer_capacity * 2 : 64;
        struct span *grown = realloc(walk->initializers, capacity * sizeof(*grown));
        if (!grown)
            return tt_fail(TT_ERR_NO_MEMORY, walk->why, "%s: out of memory", walk->file_name);
        walk->initializers = grown;
        walk->initializer_capacity = capacity;
    }
    walk->initializers[walk->initializer_count++] = name;
    return TT_OK;
}

static enum tt_err collect_initializers(struct walk *walk, struct span graph) {
    while (graph.at < graph.end) {
        struct field field;
        enum tt_err err = next_field(walk, &graph, &field);
        if (!err && field.number == GRAPH_INITIALIZER) {
            err = expect(walk, &field, 2, &graph);
            if (!err)
                err = note_initializer(walk, field.bytes);
        } else if (!err && field.number == GRAPH_SPARSE_INITIALIZER) {
            struct span values = {0};
            err = expect(walk, &field, 2, &graph);
            if (!err)
                err = find_bytes(walk, field.bytes, SPARSE_VALUES, &values);
            if (!err)
                err = note_initializer(walk, values);
        }
        if (err)
            return err;
    }
    if (walk->initializer_count > 1)
        qsort(walk->initializers, walk->initializer_count, sizeof(*walk->initializers),
              compare_spans);
    return TT_OK;
}

static enum tt_dtype dtype_of(uint64_t element) {
    static const enum tt_dtype dtypes[] = {
        [1] = TT_DTYPE_FP32,    [2] = TT_DTYPE_UINT8, [3] = TT_DTYPE_INT8,  [4] = TT_DTYPE_UINT16,
        [5] = TT_DTYPE_INT16,   [6] = TT_DTYPE_INT32, [7] = TT_DTYPE_INT64, [8] = TT_DTYPE_BYTES,
        [9] = TT_DTYPE_BOOL,    [10] = TT_DTYPE_FP16, [11] = TT_DTYPE_FP64, [12] = TT_DTYPE_UINT32,
        [13] = TT_DTYPE_UINT64, [16] = TT_DTYPE_BF16,
    };
    return element < TT_COUNT(dtypes) ? dtypes[element] : TT_DTYPE_NONE;
}

static enum tt_err read_dim(struct walk *walk, struct span dim, struct tt_onnx_value *value) {
    struct tt_shape *shape = &value->spec.shape;
    if (shape->rank == TT_MAX_RANK)
        return tt_fail(TT_ERR_UNSUPPORTED, walk->why,
                       "%s: tensor '%s' has more than the %d dimensions that Tutti carries",
                       walk->file_name, value->spec.name, TT_MAX_RANK);
    int64_t size = -1;
    struct span name = {dim.end, dim.end};
    while (dim.at < dim.end) {
        struct field field;
        enum tt_err err = next_field(walk, &dim, &field);
        if (!err && field.number == DIM_VALUE) {
            err = expect(walk, &field, 0, &dim);
            size = (int64_t)field.value < 0 ? -1 : (int64_t)field.value;
        } else if (!err && field.number == DIM_NAME) {
            err = expect(walk, &field, 2, &dim);
            name = field.bytes;
            size = -1;
        }
        if (err)
            return err;
    }
    if (shape->rank == 0) {
        size_t length = span_length(name);
        if (length >= sizeof(value->batch_name))
            length = sizeof(value->batch_name) - 1;
        memcpy(value->batch_name, name.at, length);
        value->batch_name[length] = '\0';
    }
    shape->dims[shape->rank++] = size;
    return TT_OK;
}

static enum tt_err read_shape(struct walk *walk, struct span shape, struct tt_onnx_value *value) {
    value->has_shape = true;
    while (shape.at < shape.end) {
        struct field field;
        enum tt_err err = next_field(walk, &shape, &field);
        if (!err && field.number == SHAPE_DIM) {
            err = expect(walk, &field, 2, &shape);
            if (!err)
                err = read_dim(walk, field.bytes, value);
        }
        if (err)
            return err;
    }
    return TT_OK;
}

static enum tt_err read_tensor_type(struct walk *walk, struct span type,
                                    struct tt_onnx_value *value) {
    uint64_t element = 0;
    while (type.at < type.end) {
        struct field field;
        enum tt_err err = next_field(walk, &type, &field);
        if (!err && field.number == TENSOR_TYPE_ELEMENT) {
            err = expect(walk, &field, 0, &type);
            element = field.value;
        } else if (!err && field.number == TENSOR_TYPE_SHAPE) {
            err = expect(walk, &field, 2, &type);
            if (!err)
                err = read_shape(walk, field.bytes, value);
        }
        if (err)
            return err;
    }
    value->spec.dtype = dtype_of(element);
    if (value->spec.dtype == TT_DTYPE_NONE)
        return tt_fail(TT_ERR_UNSUPPORTED, walk->why,
                       "%s: tensor '%s' has ONNX element type %llu, which the inference protocol "
                       "has no name for",
                       walk->file_name, value->spec.name, (unsigned long long)element);
    return TT_OK;
}

static enum tt_err read_type(struct walk *walk, struct span type, struct tt_onnx_value *value) {
    bool is_tensor = false;
    while (type.at < type.end) {
        struct field field;
        enum tt_err err = next_field(walk, &type, &field);
        if (err)
            return err;
        const char *kind = field.number == TYPE_SEQUENCE        ? "a sequence"
                           : field.number == TYPE_MAP           ? "a map"
                           : field.number == TYPE_SPARSE_TENSOR ? "a sparse tensor"
                           : field.number == TYPE_OPTIONAL      ? "an optional"
                                                                : NULL;
        if (kind)
            return tt_fail(TT_ERR_UNSUPPORTED, walk->why,
                           "%s: '%s' is %s; only dense tensors can go in and out of a served model",
                           walk->file_name, value->spec.name, kind);
        if (field.number != TYPE_TENSOR)
            continue;
        err = expect(walk, &field, 2, &type);
        if (!err)
            err = read_tensor_type(walk, field.bytes, value);
        if (err)
            return err;
        is_tensor = true;
    }
    if (!is_tensor)
        return tt_fail(TT_ERR_INVALID, walk->why, "%s: '%s' has no type", walk->file_name,
                       value->spec.name);
    return TT_OK;
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

static enum tt_err read_value(struct walk *walk, struct span message, struct span name,
                              const char *role, struct tt_onnx_value *value) {
    struct span type;
    enum tt_err err = find_bytes(walk, message, VALUE_TYPE, &type);
    if (!err)
        err = read_name(walk, name, role, value);
    if (!err)
        err = read_type(walk, type, value);
    return err;
}

/* Reads all inputs or all outputs. */
static enum tt_err read_values(struct walk *walk, struct span graph, uint32_t number,
                               const char *role, struct tt_onnx_value *values, int32_t *count) {
    while (graph.at < graph.end) {
        struct field field;
        struct span name;
        enum tt_err err = next_field(walk, &graph, &field);
        if (err)
            return err;
        if (field.number != number)
            continue;
        err = expect(walk, &field, 2, &graph);
        if (!err)
            err = find_bytes(walk, field.bytes, VALUE_NAME, &name);
        if (err)
            return err;
        if (number == GRAPH_INPUT && walk->initializer_count > 0 &&
            bsearch(&name, walk->initializers, walk->initializer_count, sizeof(name),
                    compare_spans))
            continue;
        if (*count == TT_MAX_TENSORS)
            return tt_fail(TT_ERR_UNSUPPORTED, walk->why,
                           "%s: more than the %d %ss that Tutti carries", walk->file_name,
                           TT_MAX_TENSORS, role);
        err = read_value(walk, field.bytes, name, role, &values[*count]);
        if (err)
            return err;
        for (int32_t i = 0; i < *count; i++)
            if (strcmp(values[i].spec.name, values[*count].spec.name) == 0)
                return tt_fail(TT_ERR_INVALID, walk->why, "%s: two %ss are named '%s'",
                               walk->file_name, role, values[i].spec.name);
        ++*count;
    }
    return TT_OK;
}

static enum tt_err read_graph(struct walk *walk, struct span graph, struct tt_onnx_file *file) {
    enum tt_err err = collect_initializers(walk, graph);
    if (!err)
        err = read_values(walk, graph, GRAPH_INPUT, "input", file->inputs, &file->input_count);
    if (!err)
        err = read_values(walk, graph, GRAPH_OUTPUT, "output", file->outputs, &file->output_count);
    if (!err && file->output_count == 0)
        err = tt_fail(TT_ERR_INVALID, walk->why, "%s: the graph has no output", walk->file_name);
    return err;
}

static enum tt_err read_opset(struct walk *walk, struct span opset, struct tt_onnx_file *file) {
    struct span domain = {opset.end, opset.end};
    int64_t version = 0;
    while (opset.at < opset.end) {
        struct field field;
        enum tt_err err = next_field(walk, &opset, &field);
        if (!err && field.number == OPSET_DOMAIN) {
            err = expect(walk, &field, 2, &opset);
            domain = field.bytes;
        } else if (!err && field.number == OPSET_VERSION) {
            err = expect(walk, &field, 0, &opset);
            version = (int64_t)field.value;
        }
        if (err)
            return err;
    }
    static const char default_value[] = "ai.onnx";
    size_t length = span_length(domain);
    if (length == 0 ||
        (length == sizeof(default_value) - 1 && memcmp(domain.at, default_value, length) == 0))
        file->opset = version;
    return TT_OK;
}

static enum tt_err read_model(struct walk *walk, struct span model, struct tt_onnx_file *file) {
    bool has_graph = false;
    while (model.at < model.end) {
        struct field field;
        enum tt_err err = next_field(walk, &model, &field);
        if (err)
            return err;
        if (field.number == MODEL_IR_VERSION) {
            err = expect(walk, &field, 0, &model);
            file->ir_version = (int64_t)field.value;
        } else if (field.number == MODEL_OPSET_IMPORT) {
            err = expect(walk, &field, 2, &model);
            if (!err)
                err = read_opset(walk, field.bytes, file);
        } else if (field.number == MODEL_GRAPH) {
            err = expect(walk, &field, 2, &model);
            if (!err && has_graph)
                err = damaged(walk, field.bytes.at, "a second graph begins");
            if (!err)
                err = read_graph(walk, field.bytes, file);
            has_graph = true;
        }
        if (err)
            return err;
    }
    if (!has_graph)
        return tt_fail(TT_ERR_INVALID, walk->why, "%s: not an ONNX model: it holds no graph",
                       walk->file_name);
    return TT_OK;
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
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return tt_fail(errno == ENOENT ? TT_ERR_NOT_FOUND : TT_ERR_IO, why, "%s: %s", path,
                       strerror(errno));
    struct stat status;
    enum tt_err err = TT_OK;
    if (fstat(descriptor, &status) != 0)
        err = tt_fail(TT_ERR_IO, why, "%s: %s", path, strerror(errno));
    else if (!S_ISREG(status.st_mode))
        err = tt_fail(TT_ERR_INVALID, why, "%s: not a regular file", path);
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
