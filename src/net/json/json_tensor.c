#include "net/json/json_tensor.h"

#include "base/utf8.h"
#include "net/json/json_float.h"

#include <math.h>
#include <string.h>

/* --- reading --- */

struct sink {
    enum tt_dtype dtype;
    int64_t count, next;
    uint8_t *to; /* NULL: measure only (BYTES) */
    size_t size_bytes, used;
};

static enum tt_err out_of_range(struct tt_json *json, const struct tt_json_number *number,
                                const struct sink *sink) {
    return tt_fail(TT_ERR_INVALID, json->why, "JSON, byte %zu: %.*s%s is %s %s (element %lld)",
                   (size_t)(number->text - json->start),
                   (int)(number->length < 60 ? number->length : 60), number->text,
                   number->length < 60 ? "" : "...",
                   number->is_integer || sink->dtype >= TT_DTYPE_FP16 ? "out of the range of"
                                                                      : "not an integer, as is an",
                   tt_dtype_name(sink->dtype), (long long)sink->next);
}

static bool signed_within(const struct tt_json_number *number, int bits, int64_t *out) {
    uint64_t limit = (UINT64_C(1) << (bits - 1)) - !number->negative;
    *out = number->negative ? (int64_t)(0 - number->mantissa) : (int64_t)number->mantissa;
    return number->is_integer && number->exact && number->mantissa <= limit;
}

static bool unsigned_within(const struct tt_json_number *number, int bits, uint64_t *out) {
    *out = number->mantissa;
    return number->is_integer && number->exact && (!number->negative || number->mantissa == 0) &&
           (bits == 64 || number->mantissa >> bits == 0);
}

static bool store_number(const struct tt_json_number *number, enum tt_dtype dtype, void *to) {
    int bits = 8 * (int)tt_dtype_bytes(dtype);
    int64_t with_sign;
    uint64_t without;
    switch (dtype) {
    case TT_DTYPE_INT8:
    case TT_DTYPE_INT16:
    case TT_DTYPE_INT32:
    case TT_DTYPE_INT64:
        if (!signed_within(number, bits, &with_sign))
            return false;
        memcpy(to, &with_sign, (size_t)bits / 8); /* little endian, as in the protocol */
        return true;
    case TT_DTYPE_UINT8:
    case TT_DTYPE_UINT16:
    case TT_DTYPE_UINT32:
    case TT_DTYPE_UINT64:
        if (!unsigned_within(number, bits, &without))
            return false;
        memcpy(to, &without, (size_t)bits / 8);
        return true;
    case TT_DTYPE_BOOL:
        if (!unsigned_within(number, 1, &without))
            return false;
        *(uint8_t *)to = (uint8_t)without;
        return true;
    case TT_DTYPE_FP16: return tt_float_read16(number, to);
    case TT_DTYPE_BF16: return tt_float_read_bf16(number, to);
    case TT_DTYPE_FP32: return tt_float_read32(number, to);
    case TT_DTYPE_FP64: return tt_float_read64(number, to);
    case TT_DTYPE_NONE:
    case TT_DTYPE_BYTES:
    default: return false;
    }
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors travel in little endian");

static enum tt_err store_string(struct tt_json *json, struct sink *sink) {
    const char *from = json->at;
    size_t length;
    enum tt_err err = tt_json_string(json, NULL, &length);
    if (err)
        return err;
    if (length > UINT32_MAX)
        return tt_fail(TT_ERR_INVALID, json->why, "JSON, byte %zu: a string of %zu bytes",
                       (size_t)(from - json->start), length);
    if (sink->to) {
        if (sink->size_bytes - sink->used < 4 || sink->size_bytes - sink->used - 4 < length)
            return tt_fail(TT_ERR_INTERNAL, json->why, "strings outgrow what was measured");
        uint32_t prefix = (uint32_t)length;
        memcpy(sink->to + sink->used, &prefix, sizeof(prefix));
        json->at = from;
        err = tt_json_string(json, (char *)sink->to + sink->used + 4, &length);
        if (err)
            return err;
    }
    sink->used += 4 + length;
    return TT_OK;
}

static enum tt_err store(struct tt_json *json, struct sink *sink, char c) {
    if (sink->next >= sink->count)
        return tt_fail(TT_ERR_INVALID, json->why,
                       "JSON, byte %zu: more values than the %lld that the shape has room for",
                       (size_t)(json->at - json->start), (long long)sink->count);
    enum tt_err err;
    if (sink->dtype == TT_DTYPE_BYTES) {
        if (c != '"')
            return tt_json_expected(json, "a string in quotes (the datatype is BYTES)");
        err = store_string(json, sink);
    } else if (sink->dtype == TT_DTYPE_BOOL && (c == 't' || c == 'f')) {
        bool value;
        err = tt_json_bool(json, "data", &value);
        if (!err)
            sink->to[sink->next] = value;
    } else {
        if (c != '-' && (c < '0' || c > '9'))
            return tt_json_expected(json, sink->dtype == TT_DTYPE_BOOL
                                              ? "true or false (the datatype is BOOL)"
                                              : "a number");
        struct tt_json_number number;
        err = tt_json_number(json, &number);
        size_t size = tt_dtype_bytes(sink->dtype);
        if (!err && !store_number(&number, sink->dtype, sink->to + (size_t)sink->next * size))
            err = out_of_range(json, &number, sink);
    }
    sink->next++;
    return err;
}

/* Walks the brackets at any nesting and stores value after value. */
static enum tt_err walk(struct tt_json *json, struct sink *sink) {
    enum tt_err err = tt_json_open(json, '[');
    enum { OPENED, COMMA, VALUE } after = OPENED;
    for (int depth = 1; !err && depth > 0;) {
        char c = tt_json_peek(json);
        if (c == ']' && after != COMMA) {
            json->at++;
            depth--;
            after = VALUE;
        } else if (after == VALUE) {
            if (c != ',')
                return tt_json_expected(json, "',' or ']'");
            json->at++;
            after = COMMA;
        } else if (c == '[') {
            if (++depth > json->max_depth)
                return tt_fail(TT_ERR_INVALID, json->why,
                               "JSON, byte %zu: data nested deeper than %d levels",
                               (size_t)(json->at - json->start), json->max_depth);
            json->at++;
            after = OPENED;
        } else {
            err = store(json, sink, c);
            after = VALUE;
        }
    }
    if (!err && sink->next != sink->count)
        return tt_fail(TT_ERR_INVALID, json->why,
                       "\"data\" holds %lld values; the shape needs %lld", (long long)sink->next,
                       (long long)sink->count);
    return err;
}

enum tt_err tt_json_tensor_read(struct tt_json *json, enum tt_dtype dtype, int64_t count, void *to,
                                size_t size_bytes) {
    size_t element_bytes = tt_dtype_bytes(dtype);
    tt_assert(dtype == TT_DTYPE_BYTES || size_bytes == (size_t)count * element_bytes);
    uint8_t nowhere;
    struct sink sink = {.dtype = dtype,
                        .count = count,
                        .to = to ? to : &nowhere, /* an empty tensor may have no memory */
                        .size_bytes = size_bytes};
    enum tt_err err = walk(json, &sink);
    if (!err && dtype == TT_DTYPE_BYTES && sink.used != size_bytes)
        return tt_fail(TT_ERR_INTERNAL, json->why, "strings fall short of what was measured");
    return err;
}

enum tt_err tt_json_tensor_measure(struct tt_json *json, int64_t count, size_t *out_size_bytes) {
    struct sink sink = {.dtype = TT_DTYPE_BYTES, .count = count};
    enum tt_err err = walk(json, &sink);
    if (!err)
        *out_size_bytes = sink.used;
    return err;
}

/* --- writing --- */

/* How many of the first bytes stand in a JSON string as they are, beside what is not ASCII. */
static size_t plain_bytes(const char *bytes, size_t length) {
    return tt_text_plain_bytes(bytes, length, '"', '\\');
}

void tt_json_write_string(struct tt_text *out_text, const char *bytes, size_t length) {
    static const char hex[] = "0123456789abcdef", replacement[] = "\xef\xbf\xbd"; /* U+FFFD */
    size_t from = 0, plain = plain_bytes(bytes, length);
    char *to = tt_text_reserve(out_text, length + 2); /* what fails here fails below */
    if (to && plain == length) {                      /* nearly all */
        *to = '"';
        if (length)
            memcpy(to + 1, bytes, length);
        memcpy(to + 1 + length, "\"", sizeof("\""));
        out_text->length += length + 2;
        return;
    }
    tt_text_append(out_text, "\"", 1);
    for (size_t i = plain; i < length; i++, i += plain_bytes(bytes + i, length - i)) {
        unsigned char c = (unsigned char)bytes[i];
        size_t step = c < 0x80 ? 0 : tt_utf8_step(bytes + i, length - i);
        if (step) {
            i += step - 1;
            continue;
        }
        tt_text_append(out_text, bytes + from, i - from);
        from = i + 1;
        char escape[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
        if (c >= 0x80) {
            tt_text_append(out_text, replacement, sizeof(replacement) - 1);
        } else if (c == '"' || c == '\\') {
            escape[1] = (char)c;
            tt_text_append(out_text, escape, 2);
        } else {
            tt_text_append(out_text, escape, 6);
        }
    }
    tt_text_append(out_text, bytes + from, length - from);
    tt_text_append(out_text, "\"", 1);
}

static enum tt_err write_strings(int64_t count, const uint8_t *bytes, size_t size_bytes,
                                 struct tt_text *out_text, struct tt_error *why) {
    enum tt_err err = tt_bytes_tensor_check(bytes, size_bytes, count, why);
    if (err)
        return tt_fail_in(TT_ERR_INTERNAL, why, "the model's output is not a BYTES tensor");
    for (int64_t i = 0; i < count; i++) {
        uint32_t length;
        memcpy(&length, bytes, sizeof(length));
        bytes += sizeof(length);
        if (!tt_is_utf8((const char *)bytes, length))
            return tt_fail(TT_ERR_INVALID, why,
                           "element %lld is not UTF-8 text, which JSON cannot carry; ask for this "
                           "output with \"binary_data\": true",
                           (long long)i);
        if (i)
            tt_text_append(out_text, ",", 1);
        tt_json_write_string(out_text, (const char *)bytes, length);
        bytes += length;
    }
    return TT_OK;
}

static size_t write_float(float value, char *out) {
    return isfinite(value) ? tt_float_write32(value, out) : 0;
}

#define LOAD(type, from)                                                                           \
    ({                                                                                             \
        type loaded;                                                                               \
        memcpy(&loaded, from, sizeof(loaded));                                                     \
        loaded;                                                                                    \
    })

/* Writes one number; 0 if JSON cannot express it. */
static size_t write_number(enum tt_dtype dtype, const uint8_t *from, char *out) {
    switch (dtype) {
    case TT_DTYPE_BOOL: memcpy(out, *from ? "true" : "false", 5); return *from ? 4 : 5;
    case TT_DTYPE_UINT8: return tt_text_write_unsigned(*from, out);
    case TT_DTYPE_UINT16: return tt_text_write_unsigned(LOAD(uint16_t, from), out);
    case TT_DTYPE_UINT32: return tt_text_write_unsigned(LOAD(uint32_t, from), out);
    case TT_DTYPE_UINT64: return tt_text_write_unsigned(LOAD(uint64_t, from), out);
    case TT_DTYPE_INT8: return tt_text_write_integer(LOAD(int8_t, from), out);
    case TT_DTYPE_INT16: return tt_text_write_integer(LOAD(int16_t, from), out);
    case TT_DTYPE_INT32: return tt_text_write_integer(LOAD(int32_t, from), out);
    case TT_DTYPE_INT64: return tt_text_write_integer(LOAD(int64_t, from), out);
    case TT_DTYPE_FP16: return write_float(tt_float_from16(LOAD(uint16_t, from)), out);
    case TT_DTYPE_BF16: return write_float(tt_float_from_bf16(LOAD(uint16_t, from)), out);
    case TT_DTYPE_FP32: return write_float(LOAD(float, from), out);
    case TT_DTYPE_FP64: {
        double value = LOAD(double, from);
        return isfinite(value) ? tt_float_write64(value, out) : 0;
    }
    case TT_DTYPE_NONE:
    case TT_DTYPE_BYTES:
    default: return 0;
    }
}

enum tt_err tt_json_tensor_write(enum tt_dtype dtype, int64_t count, const void *bytes,
                                 size_t size_bytes, struct tt_text *out_text,
                                 struct tt_error *why) {
    enum { BLOCK = 64 };
    size_t element_bytes = tt_dtype_bytes(dtype);
    const uint8_t *from = bytes;
    tt_text_append(out_text, "[", 1);
    if (dtype == TT_DTYPE_BYTES) {
        enum tt_err err = write_strings(count, from, size_bytes, out_text, why);
        if (err)
            return err;
    } else {
        tt_assert(size_bytes == (size_t)count * element_bytes);
    }
    for (int64_t i = 0; i < count && element_bytes;) {
        char *to = tt_text_reserve(out_text, (size_t)BLOCK * (TT_FLOAT_TEXT_BYTES + 1));
        if (!to)
            break;
        char *at = to;
        for (int64_t stop = i + BLOCK < count ? i + BLOCK : count; i < stop;
             i++, from += element_bytes) {
            if (i)
                *at++ = ',';
            size_t length = write_number(dtype, from, at);
            if (!length)
                return tt_fail(TT_ERR_INVALID, why,
                               "element %lld is NaN or infinite, which JSON cannot carry; ask for "
                               "this output with \"binary_data\": true",
                               (long long)i);
            at += length;
        }
        out_text->length += (size_t)(at - to);
    }
    tt_text_append(out_text, "]", 1);
    return out_text->failed ? tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for the answer")
                            : TT_OK;
}
