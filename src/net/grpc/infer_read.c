/* Reading of infer_message.h. */
#include "net/grpc/infer_message.h"

#include "base/utf8.h"
#include "net/grpc/protobuf_wire.h"
#include "net/kserve/kserve_parameters.h"
#include "net/kserve/kserve_share.h"

#include <string.h>

/* State shared by the functions that read the parts of a message. */
struct reader {
    struct tt_kserve_request *request;
    bool wants_final;
    int32_t raw_count;
    bool has_raw[TT_MAX_TENSORS];   /* per input: it waits for its raw contents */
    bool is_shared[TT_MAX_TENSORS]; /* per input: it is in shared memory */
    struct tt_wire_field raw[TT_MAX_TENSORS];
    struct tt_error *why;
};

/* The value of one entry of `parameters`. */
struct parameter {
    char key[64];
    enum {
        PARAMETER_NONE,
        PARAMETER_BOOL,
        PARAMETER_INTEGER,
        PARAMETER_STRING,
        PARAMETER_DOUBLE
    } kind;
    uint64_t value;   /* of BOOL and INTEGER; of STRING the length */
    const char *text; /* of STRING; borrowed */
    bool is_signed;
};

typedef enum tt_err parameter_fn(struct reader *reader, const struct parameter *parameter,
                                 void *context);

static enum tt_err malformed(struct reader *reader) {
    return tt_fail(TT_ERR_INVALID, reader->why, "the message is no ModelInferRequest in protobuf");
}

static enum tt_err expect(struct reader *reader, const struct tt_wire_field *field,
                          enum tt_wire_type type) {
    return field->type == type ? TT_OK : malformed(reader);
}

static enum tt_err check_text(struct reader *reader, const struct tt_wire_field *field,
                              const char *what) {
    enum tt_err err = expect(reader, field, TT_WIRE_BYTES);
    if (!err && !tt_is_utf8(field->bytes, field->size_bytes))
        err = tt_fail(TT_ERR_INVALID, reader->why, "\"%s\" must be UTF-8 text", what);
    return err;
}

/* --- parameters --- */

static bool read_value(const struct tt_wire_field *entry, struct parameter *out) {
    struct tt_wire wire;
    struct tt_wire_field field;
    tt_wire_init(&wire, entry->bytes, entry->size_bytes);
    while (tt_wire_next(&wire, &field)) {
        bool is_bytes = field.type == TT_WIRE_BYTES;
        switch (field.number) {
        case 1: out->kind = PARAMETER_BOOL; break;
        case 2:
        case 5: out->kind = PARAMETER_INTEGER; break;
        case 3: out->kind = PARAMETER_STRING; break;
        case 4: out->kind = PARAMETER_DOUBLE; break;
        default: continue;
        }
        out->is_signed = field.number == 2;
        out->value = is_bytes ? field.size_bytes : field.value;
        out->text = is_bytes ? field.bytes : "";
        if (is_bytes != (field.number == 3))
            return false;
    }
    return !wire.is_bad;
}

/* One entry of map<string, InferParameter>. */
static enum tt_err read_parameter(struct reader *reader, const struct tt_wire_field *entry,
                                  parameter_fn *take, void *context) {
    struct parameter parameter = {.kind = PARAMETER_NONE};
    struct tt_wire wire;
    struct tt_wire_field field;
    enum tt_err err = expect(reader, entry, TT_WIRE_BYTES);
    if (err)
        return err;
    tt_wire_init(&wire, entry->bytes, entry->size_bytes);
    while (tt_wire_next(&wire, &field)) {
        if (field.number <= 2 && field.type != TT_WIRE_BYTES)
            return malformed(reader);
        if (field.number == 1) {
            size_t length = field.size_bytes < sizeof(parameter.key) ? field.size_bytes
                                                                     : sizeof(parameter.key) - 1;
            memcpy(parameter.key, field.bytes, length);
            parameter.key[length] = '\0';
            if (!tt_is_utf8(field.bytes, field.size_bytes))
                return tt_fail(TT_ERR_INVALID, reader->why,
                               "a parameter's name must be UTF-8 text");
        } else if (field.number == 2 && !read_value(&field, &parameter)) {
            return malformed(reader);
        }
    }
    if (wire.is_bad)
        return malformed(reader);
    err = take(reader, &parameter, context);
    return err ? tt_fail_in(err, reader->why, "\"parameters\"") : TT_OK;
}

static enum tt_err to_integer(struct reader *reader, const struct parameter *parameter,
                              int64_t highest, int64_t *out_value) {
    bool is_negative = parameter->is_signed && (int64_t)parameter->value < 0;
    if (parameter->kind != PARAMETER_INTEGER || is_negative || parameter->value > (uint64_t)highest)
        return tt_fail(TT_ERR_INVALID, reader->why,
                       "\"%s\" must be an integer from 0 to %lld (int64_param or uint64_param)",
                       parameter->key, (long long)highest);
    *out_value = (int64_t)parameter->value;
    return TT_OK;
}

static enum tt_err request_parameter(struct reader *reader, const struct parameter *parameter,
                                     void *context) {
    struct tt_inference_options *options = context;
    const char *key = parameter->key;
    int64_t value = 0;
    enum tt_err err = TT_OK;
    if (strcmp(key, "timeout") == 0) {
        err = to_integer(reader, parameter, INT64_MAX / 1000, &value);
        options->timeout_ns = value * 1000;
    } else if (strcmp(key, "priority") == 0) {
        err = to_integer(reader, parameter, INT32_MAX, &value);
        options->priority = (int32_t)value;
    } else if (strcmp(key, "sequence_id") == 0) {
        if (parameter->kind == PARAMETER_STRING || parameter->value != 0)
            err = tt_kserve_refuse_sequence(reader->why);
    } else if (strcmp(key, "triton_enable_empty_final_response") == 0) {
        reader->wants_final = parameter->kind == PARAMETER_BOOL && parameter->value != 0;
    } else {
        err = tt_kserve_check_reserved(key, reader->why);
    }
    return err;
}

static enum tt_err share_parameter(struct reader *reader, const struct parameter *parameter,
                                   struct tt_kserve_share_draft *share) {
    enum tt_kserve_share_key which = tt_kserve_share_key(parameter->key);
    if (which == TT_KSERVE_SHARE_NONE || !reader->request->memory) /* refused */
        return tt_kserve_check_shared_memory(parameter->key, reader->why);
    if (which != TT_KSERVE_SHARE_REGION)
        return to_integer(reader, parameter, INT64_MAX,
                          which == TT_KSERVE_SHARE_OFFSET ? &share->offset : &share->size);
    if (parameter->kind != PARAMETER_STRING)
        return tt_fail(TT_ERR_INVALID, reader->why, "\"%s\" must be a string (string_param)",
                       parameter->key);
    share->region = parameter->text;
    share->region_bytes = (size_t)parameter->value;
    return TT_OK;
}

static enum tt_err input_parameter(struct reader *reader, const struct parameter *parameter,
                                   void *context) {
    return share_parameter(reader, parameter, context);
}

static enum tt_err output_parameter(struct reader *reader, const struct parameter *parameter,
                                    void *context) {
    if (strcmp(parameter->key, "classification") == 0)
        return parameter->value ? tt_kserve_refuse_classification(reader->why) : TT_OK;
    return share_parameter(reader, parameter, context);
}

/* --- an input --- */

static enum tt_err add_dimension(struct reader *reader, struct tt_shape *shape, uint64_t bits) {
    if (shape->rank == TT_MAX_RANK)
        return tt_fail(TT_ERR_INVALID, reader->why,
                       "\"shape\" has more than %d dimensions, the maximum", TT_MAX_RANK);
    if ((int64_t)bits < 0)
        return tt_fail(TT_ERR_INVALID, reader->why,
                       "\"shape\" has dimension %lld; it must not be negative",
                       (long long)(int64_t)bits);
    shape->dims[shape->rank++] = (int64_t)bits;
    return TT_OK;
}

static enum tt_err read_shape(struct reader *reader, const struct tt_wire_field *field,
                              struct tt_shape *shape) {
    if (field->type == TT_WIRE_VARINT)
        return add_dimension(reader, shape, field->value);
    enum tt_err err = expect(reader, field, TT_WIRE_BYTES);
    struct tt_wire wire;
    uint64_t bits;
    if (err)
        return err;
    tt_wire_init(&wire, field->bytes, field->size_bytes);
    while (!err && tt_wire_next_varint(&wire, &bits))
        err = add_dimension(reader, shape, bits);
    return !err && wire.is_bad ? malformed(reader) : err;
}

static enum tt_err read_input_field(struct reader *reader, const struct tt_wire_field *field,
                                    struct tt_kserve_input *input,
                                    struct tt_kserve_share_draft *share) {
    enum tt_err err = TT_OK;
    switch (field->number) {
    case 1:
        err = check_text(reader, field, "name");
        input->name = field->bytes;
        input->name_bytes = field->size_bytes;
        break;
    case 2:
        err = check_text(reader, field, "datatype");
        input->datatype = field->bytes;
        input->datatype_bytes = field->size_bytes;
        break;
    case 3: err = read_shape(reader, field, &input->shape); break;
    case 4: err = read_parameter(reader, field, input_parameter, share); break;
    case 5:
        err = expect(reader, field, TT_WIRE_BYTES);
        if (!err && input->data)
            err = tt_fail(TT_ERR_INVALID, reader->why, "\"contents\" is given twice");
        input->data = field->bytes;
        input->data_bytes = field->size_bytes;
        break;
    default: break;
    }
    return err;
}

static enum tt_err read_input(struct reader *reader, const struct tt_wire_field *message) {
    struct tt_kserve_request *request = reader->request;
    if (request->input_count == TT_MAX_TENSORS)
        return tt_fail(TT_ERR_INVALID, reader->why, "more than %d inputs", TT_MAX_TENSORS);
    struct tt_kserve_input *input = &request->inputs[request->input_count];
    struct tt_kserve_share_draft share = {.region = NULL};
    *input = (struct tt_kserve_input){.name = ""};
    struct tt_wire wire = {.is_bad = false};
    struct tt_wire_field field;
    enum tt_err err = expect(reader, message, TT_WIRE_BYTES);
    if (!err)
        tt_wire_init(&wire, message->bytes, message->size_bytes);
    while (!err && tt_wire_next(&wire, &field))
        err = read_input_field(reader, &field, input, &share);
    if (!err && wire.is_bad)
        err = malformed(reader);
    if (!err && (!input->name_bytes || !input->datatype_bytes))
        err = tt_fail(TT_ERR_INVALID, reader->why, "\"%s\" is missing",
                      input->name_bytes ? "datatype" : "name");
    if (!err)
        input->dtype = tt_dtype_parse(input->datatype, input->datatype_bytes);
    if (!err && share.region && input->data_bytes)
        err = tt_fail(TT_ERR_INVALID, reader->why,
                      "input '%.*s' is in shared memory; it must have no data besides",
                      (int)input->name_bytes, input->name);
    /* An empty message is as good as none. */
    bool has_raw = input->data_bytes == 0 && !share.region;
    if (!err && share.region)
        err = tt_kserve_share_input(request, input, &share, reader->why);
    if (err)
        return tt_fail_in(err, reader->why, "inputs[%d]", request->input_count);
    reader->has_raw[request->input_count] = has_raw;
    reader->is_shared[request->input_count] = share.region != NULL;
    request->input_count++;
    return TT_OK;
}

/* --- an output --- */

static enum tt_err read_output(struct reader *reader, const struct tt_wire_field *message) {
    struct tt_kserve_request *request = reader->request;
    if (request->output_count == TT_MAX_TENSORS)
        return tt_fail(TT_ERR_INVALID, reader->why, "more than %d outputs", TT_MAX_TENSORS);
    struct tt_kserve_output *output = &request->outputs[request->output_count];
    struct tt_kserve_share_draft share = {.region = NULL};
    *output = (struct tt_kserve_output){.name = "", .is_binary = true};
    struct tt_wire wire = {.is_bad = false};
    struct tt_wire_field field;
    enum tt_err err = expect(reader, message, TT_WIRE_BYTES);
    if (!err)
        tt_wire_init(&wire, message->bytes, message->size_bytes);
    while (!err && tt_wire_next(&wire, &field)) {
        if (field.number == 1) {
            err = check_text(reader, &field, "name");
            output->name = field.bytes;
            output->name_bytes = field.size_bytes;
        } else if (field.number == 2) {
            err = read_parameter(reader, &field, output_parameter, &share);
        }
    }
    if (!err && wire.is_bad)
        err = malformed(reader);
    if (!err && !output->name_bytes)
        err = tt_fail(TT_ERR_INVALID, reader->why, "\"name\" is missing");
    if (!err && share.region)
        err = tt_kserve_share_output(request, output, &share, reader->why);
    if (err)
        return tt_fail_in(err, reader->why, "outputs[%d]", request->output_count);
    request->output_count++;
    return TT_OK;
}

/* --- the whole --- */

static enum tt_err read_name(struct reader *reader, const struct tt_wire_field *field, char *out,
                             size_t capacity, const char *what) {
    enum tt_err err = check_text(reader, field, what);
    if (err)
        return err;
    if (field->size_bytes >= capacity)
        return tt_kserve_refuse_long_name(reader->why);
    memcpy(out, field->bytes, field->size_bytes);
    out[field->size_bytes] = '\0';
    return TT_OK;
}

static enum tt_err read_id(struct reader *reader, const struct tt_wire_field *field) {
    struct tt_text *id = &reader->request->id;
    enum tt_err err = check_text(reader, field, "id");
    tt_text_clear(id);
    if (!err && field->size_bytes) {
        tt_text_append(id, field->bytes, field->size_bytes);
        if (id->failed)
            err = tt_fail(TT_ERR_NO_MEMORY, reader->why, "no memory for \"id\"");
    }
    return err;
}

static enum tt_err read_raw(struct reader *reader, const struct tt_wire_field *field) {
    enum tt_err err = expect(reader, field, TT_WIRE_BYTES);
    if (!err && reader->raw_count == TT_MAX_TENSORS)
        err =
            tt_fail(TT_ERR_INVALID, reader->why, "more than %d raw_input_contents", TT_MAX_TENSORS);
    if (!err)
        reader->raw[reader->raw_count++] = *field;
    return err;
}

static enum tt_err read_field(struct reader *reader, const struct tt_wire_field *field) {
    struct tt_kserve_target *target = &reader->request->target;
    switch (field->number) {
    case 1: return read_name(reader, field, target->model, sizeof(target->model), "model_name");
    case 2:
        return read_name(reader, field, target->version, sizeof(target->version), "model_version");
    case 3: return read_id(reader, field);
    case 4: return read_parameter(reader, field, request_parameter, &reader->request->options);
    case 5: return read_input(reader, field);
    case 6: return read_output(reader, field);
    case 7: return read_raw(reader, field);
    default: return TT_OK;
    }
}

/* Gives every input its values: typed, or the next raw ones. */
static enum tt_err locate_inputs(struct reader *reader) {
    struct tt_kserve_request *request = reader->request;
    int32_t next = 0;
    for (int32_t i = 0; i < request->input_count; i++) {
        struct tt_kserve_input *input = &request->inputs[i];
        enum tt_err err = TT_OK;
        if (reader->is_shared[i])
            continue;
        if (!reader->has_raw[i]) {
            err = reader->raw_count
                      ? tt_fail(TT_ERR_INVALID, reader->why,
                                "input '%.*s' has contents, but the request has "
                                "raw_input_contents; use one of the two for all inputs",
                                (int)input->name_bytes, input->name)
                      : tt_infer_contents_measure(input, reader->why);
        } else if (next < reader->raw_count) {
            input->data = reader->raw[next].bytes;
            input->data_bytes = input->size_bytes = reader->raw[next++].size_bytes;
        } else if (tt_shape_count(&input->shape, 0) == 0 && !reader->raw_count) {
            input->data = "";
        } else {
            err = tt_fail(TT_ERR_INVALID, reader->why,
                          "input '%.*s' has no data; it must have either contents or an entry of "
                          "raw_input_contents",
                          (int)input->name_bytes, input->name);
        }
        if (err)
            return tt_fail_in(err, reader->why, "inputs[%d]", i);
    }
    if (next < reader->raw_count)
        return tt_fail(TT_ERR_INVALID, reader->why,
                       "unexpected additional input data for model '%s': %d raw_input_contents for "
                       "%d inputs",
                       request->target.model, reader->raw_count, request->input_count);
    return TT_OK;
}

enum tt_err tt_infer_message_read(struct tt_kserve_request *out_request, const char *bytes,
                                  size_t size_bytes, bool *out_wants_final, struct tt_error *why) {
    struct reader reader; /* its array of raw contents is long and mostly unused */
    struct tt_wire wire;
    struct tt_wire_field field;
    enum tt_err err = TT_OK;
    reader.request = out_request;
    reader.wants_final = false;
    reader.raw_count = 0;
    reader.why = why;
    out_request->target.model[0] = out_request->target.version[0] = '\0';
    out_request->binary_output = true;
    tt_wire_init(&wire, bytes, size_bytes);
    while (!err && tt_wire_next(&wire, &field))
        err = read_field(&reader, &field);
    if (!err && wire.is_bad)
        err = malformed(&reader);
    *out_wants_final = reader.wants_final;
    return err ? err : locate_inputs(&reader);
}

enum tt_err tt_infer_message_glance(struct tt_kserve_request *out_request, const char *bytes,
                                    size_t size_bytes, size_t *out_raw_bytes) {
    struct tt_error why;
    struct reader reader; /* likewise */
    struct tt_wire wire;
    struct tt_wire_field field;
    enum tt_err err = TT_OK;
    reader.request = out_request;
    reader.wants_final = false;
    reader.why = &why;
    *out_raw_bytes = 0;
    tt_wire_init(&wire, bytes, size_bytes);
    while (!err && tt_wire_next(&wire, &field)) {
        if (field.number <= 4)
            err = read_field(&reader, &field);
        else if (field.number == 7 && field.type == TT_WIRE_BYTES)
            *out_raw_bytes += field.size_bytes;
    }
    return !err && wire.is_bad ? malformed(&reader) : err;
}

/* --- weight --- */

static size_t weight_of_input(const struct tt_wire_field *input, size_t enough) {
    size_t contents = 0, rest = 0;
    struct tt_wire wire;
    struct tt_wire_field field;
    const char *from = input->bytes;
    tt_wire_init(&wire, input->bytes, input->size_bytes);
    for (; rest + contents / 4 < enough && tt_wire_next(&wire, &field); from = wire.at) {
        bool is_contents = field.number == 5 && field.type == TT_WIRE_BYTES;
        *(is_contents ? &contents : &rest) += (size_t)(wire.at - from);
    }
    return rest + contents / 4;
}

size_t tt_infer_message_weight(const char *bytes, size_t size_bytes, size_t enough) {
    size_t weight = 0;
    struct tt_wire wire;
    struct tt_wire_field field;
    const char *from = bytes;
    tt_wire_init(&wire, bytes, size_bytes);
    for (; weight < enough && tt_wire_next(&wire, &field); from = wire.at) {
        size_t taken = (size_t)(wire.at - from);
        if (field.number == 5 && field.type == TT_WIRE_BYTES)
            weight += taken - field.size_bytes + weight_of_input(&field, enough - weight);
        else
            weight += field.number == 7 && field.type == TT_WIRE_BYTES ? taken / 16 : taken;
    }
    return weight;
}
