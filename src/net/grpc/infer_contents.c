/* Typed contents of infer_message.h: tensors whose values are sent one by one. */
#include "net/grpc/infer_message.h"
#include "net/grpc/protobuf_wire.h"

#include <string.h>

/* How InferTensorContents holds the values of a datatype. */
struct form {
    const char *field;
    uint32_t number; /* 0: it has no field for them */
    enum tt_wire_type type;
    int64_t lowest, highest; /* of integers of 32 bits and less */
};

static const struct form forms[] = {
    [TT_DTYPE_NONE] = {0},
    [TT_DTYPE_BOOL] = {"bool_contents", 1, TT_WIRE_VARINT, 0, 1},
    [TT_DTYPE_INT8] = {"int_contents", 2, TT_WIRE_VARINT, INT8_MIN, INT8_MAX},
    [TT_DTYPE_INT16] = {"int_contents", 2, TT_WIRE_VARINT, INT16_MIN, INT16_MAX},
    [TT_DTYPE_INT32] = {"int_contents", 2, TT_WIRE_VARINT, INT32_MIN, INT32_MAX},
    [TT_DTYPE_INT64] = {"int64_contents", 3, TT_WIRE_VARINT, INT64_MIN, INT64_MAX},
    [TT_DTYPE_UINT8] = {"uint_contents", 4, TT_WIRE_VARINT, 0, UINT8_MAX},
    [TT_DTYPE_UINT16] = {"uint_contents", 4, TT_WIRE_VARINT, 0, UINT16_MAX},
    [TT_DTYPE_UINT32] = {"uint_contents", 4, TT_WIRE_VARINT, 0, UINT32_MAX},
    [TT_DTYPE_UINT64] = {"uint64_contents", 5, TT_WIRE_VARINT, INT64_MIN, INT64_MAX},
    [TT_DTYPE_FP32] = {"fp32_contents", 6, TT_WIRE_FIXED32, 0, 0},
    [TT_DTYPE_FP64] = {"fp64_contents", 7, TT_WIRE_FIXED64, 0, 0},
    [TT_DTYPE_FP16] = {0},
    [TT_DTYPE_BF16] = {0},
    [TT_DTYPE_BYTES] = {"bytes_contents", 8, TT_WIRE_BYTES, 0, 0},
};

/* Where the values go. */
struct sink {
    const struct tt_kserve_input *input;
    const struct form *form;
    char *to, *end; /* `to` NULL: they are only counted */
    size_t element_bytes;
    int64_t count, size_bytes;
    struct tt_error *why;
};

static enum tt_err put_string(struct sink *sink, const struct tt_wire_field *field) {
    uint32_t length = (uint32_t)field->size_bytes;
    if (field->size_bytes > UINT32_MAX)
        return tt_fail(TT_ERR_INVALID, sink->why, "input '%.*s': an element is too long",
                       (int)sink->input->name_bytes, sink->input->name);
    sink->count++;
    sink->size_bytes += (int64_t)(sizeof(length) + field->size_bytes);
    if (!sink->to)
        return TT_OK;
    tt_assert((size_t)(sink->end - sink->to) >= sizeof(length) + length);
    memcpy(sink->to, &length, sizeof(length));
    memcpy(sink->to + sizeof(length), field->bytes, length);
    sink->to += sizeof(length) + length;
    return TT_OK;
}

/* Little-endian, as the machine: the low bytes of `bits` are the element. */
static enum tt_err put_number(struct sink *sink, uint64_t bits) {
    const struct form *form = sink->form;
    if (form->number == 1)
        bits = bits != 0;
    if (form->number == 2 || form->number == 4) {
        int64_t value = form->number == 2 ? (int64_t)(int32_t)bits : (int64_t)(uint32_t)bits;
        if (value < form->lowest || value > form->highest)
            return tt_fail(TT_ERR_INVALID, sink->why,
                           "input '%.*s': value %lld does not fit %s (%lld to %lld)",
                           (int)sink->input->name_bytes, sink->input->name, (long long)value,
                           tt_dtype_name(sink->input->dtype), (long long)form->lowest,
                           (long long)form->highest);
    }
    sink->count++;
    if (!sink->to)
        return TT_OK;
    if ((size_t)(sink->end - sink->to) >= sink->element_bytes) {
        memcpy(sink->to, &bits, sink->element_bytes);
        sink->to += sink->element_bytes;
    }
    return TT_OK; /* too many values are counted, and rejected at the end */
}

static enum tt_err malformed(const struct sink *sink) {
    return tt_fail(TT_ERR_INVALID, sink->why, "input '%.*s': its contents are no protobuf message",
                   (int)sink->input->name_bytes, sink->input->name);
}

static enum tt_err put_packed(struct sink *sink, const struct tt_wire_field *field) {
    size_t width = sink->form->type == TT_WIRE_FIXED32   ? 4
                   : sink->form->type == TT_WIRE_FIXED64 ? 8
                                                         : 0;
    if (width) {
        if (field->size_bytes % width)
            return malformed(sink);
        size_t room = sink->to ? (size_t)(sink->end - sink->to) : 0;
        size_t copied = field->size_bytes < room ? field->size_bytes : room;
        if (copied)
            memcpy(sink->to, field->bytes, copied);
        sink->to += copied;
        sink->count += (int64_t)(field->size_bytes / width);
        return TT_OK;
    }
    struct tt_wire values;
    uint64_t bits;
    tt_wire_init(&values, field->bytes, field->size_bytes);
    while (tt_wire_next_varint(&values, &bits)) {
        enum tt_err err = put_number(sink, bits);
        if (err)
            return err;
    }
    return values.is_bad ? malformed(sink) : TT_OK;
}

static enum tt_err walk(struct sink *sink) {
    const struct tt_kserve_input *input = sink->input;
    struct tt_wire wire;
    struct tt_wire_field field;
    enum tt_err err = TT_OK;
    tt_wire_init(&wire, input->data, input->data_bytes);
    while (!err && tt_wire_next(&wire, &field)) {
        if (field.number != sink->form->number) {
            if (field.number <= 8 && !(field.type == TT_WIRE_BYTES && field.size_bytes == 0))
                err = tt_fail(TT_ERR_INVALID, sink->why,
                              "input '%.*s' has values in field %u of its contents, but %s belongs "
                              "into %s",
                              (int)input->name_bytes, input->name, field.number,
                              tt_dtype_name(input->dtype), sink->form->field);
        } else if (sink->form->type == TT_WIRE_BYTES) {
            err = field.type == TT_WIRE_BYTES ? put_string(sink, &field) : malformed(sink);
        } else if (field.type == TT_WIRE_BYTES) {
            err = put_packed(sink, &field);
        } else {
            err = field.type == sink->form->type ? put_number(sink, field.value) : malformed(sink);
        }
    }
    return err ? err : wire.is_bad ? malformed(sink) : TT_OK;
}

static enum tt_err decode(const struct tt_kserve_input *input, void *to, size_t size_bytes,
                          struct tt_error *why) {
    struct sink sink = {.input = input,
                        .form = &forms[input->dtype],
                        .to = to,
                        .end = (char *)to + size_bytes,
                        .element_bytes = tt_dtype_bytes(input->dtype),
                        .why = why};
    return walk(&sink);
}

enum tt_err tt_infer_contents_measure(struct tt_kserve_input *input, struct tt_error *why) {
    struct sink sink = {.input = input, .form = &forms[input->dtype], .why = why};
    if (input->dtype == TT_DTYPE_NONE) {
        input->decode = decode; /* tt_kserve_begin rejects the datatype */
        return TT_OK;
    }
    if (!sink.form->number)
        return tt_fail(TT_ERR_INVALID, why,
                       "input '%.*s': contents cannot hold %s; send it in raw_input_contents",
                       (int)input->name_bytes, input->name, tt_dtype_name(input->dtype));
    enum tt_err err = walk(&sink);
    if (err)
        return err;
    char printed[8 * 21 + 3];
    int64_t count = tt_shape_count(&input->shape, 0);
    if (count < 0)
        return tt_fail(TT_ERR_INVALID, why, "input '%.*s': shape %s is too large",
                       (int)input->name_bytes, input->name,
                       tt_shape_print(&input->shape, printed, sizeof(printed)));
    if (count != sink.count)
        return tt_fail(TT_ERR_INVALID, why,
                       "input '%.*s' has %lld values in %s, but shape %s takes %lld",
                       (int)input->name_bytes, input->name, (long long)sink.count, sink.form->field,
                       tt_shape_print(&input->shape, printed, sizeof(printed)), (long long)count);
    input->size_bytes = input->dtype == TT_DTYPE_BYTES
                            ? (size_t)sink.size_bytes
                            : (size_t)count * tt_dtype_bytes(input->dtype);
    input->decode = decode;
    return TT_OK;
}
