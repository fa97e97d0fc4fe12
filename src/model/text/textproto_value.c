#include "model/text/textproto_value.h"

#include "model/text/textproto.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

size_t tt_textproto_value_bytes(ProtobufCType type) {
    switch (type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_ENUM: return 4;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE: return 8;
    case PROTOBUF_C_TYPE_BOOL: return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_STRING: return sizeof(char *);
    case PROTOBUF_C_TYPE_BYTES: return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_MESSAGE: return sizeof(ProtobufCMessage *);
    }
    return 0;
}

static bool name_is(const struct tt_textproto_token *token, const char *word) {
    return token->kind == TT_TEXTPROTO_NAME && token->length == strlen(word) &&
           strncasecmp(token->at, word, token->length) == 0;
}

static bool name_is_exactly(const struct tt_textproto_token *token, const char *word) {
    return token->kind == TT_TEXTPROTO_NAME && token->length == strlen(word) &&
           memcmp(token->at, word, token->length) == 0;
}

enum number_result { NUMBER_OK, NUMBER_MALFORMED, NUMBER_TOO_LARGE };

/* Decimal, 0x hexadecimal, 0 octal. */
static enum number_result parse_magnitude(const struct tt_textproto_token *token, uint64_t *out) {
    if (token->kind != TT_TEXTPROTO_NUMBER)
        return NUMBER_MALFORMED;
    const char *at = token->at, *end = at + token->length;
    uint64_t base = 10, value = 0;
    if (token->length > 2 && at[0] == '0' && (at[1] == 'x' || at[1] == 'X')) {
        base = 16;
        at += 2;
    } else if (token->length > 1 && at[0] == '0') {
        base = 8;
        at++;
    }
    bool too_large = false;
    for (; at < end; at++) {
        char c = *at;
        uint64_t digit = c >= '0' && c <= '9'   ? (uint64_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint64_t)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (uint64_t)(c - 'A' + 10)
                                                : 99;
        if (digit >= base)
            return NUMBER_MALFORMED;
        if (__builtin_mul_overflow(value, base, &value) ||
            __builtin_add_overflow(value, digit, &value))
            too_large = true;
    }
    *out = value;
    return too_large ? NUMBER_TOO_LARGE : NUMBER_OK;
}

static enum tt_err wrong_kind(struct tt_textproto_lexer *lexer,
                              const ProtobufCFieldDescriptor *field,
                              const struct tt_textproto_token *at, const char *wanted) {
    char shown[64];
    return tt_textproto_lexer_fail(lexer, at, "field '%s' wants %s, not %s", field->name, wanted,
                                   tt_textproto_token_show(at, shown, sizeof(shown)));
}

/* Reads an integer in [lowest, highest] as two's complement. */
static enum tt_err read_integer(struct tt_textproto_lexer *lexer,
                                const ProtobufCFieldDescriptor *field, int64_t lowest,
                                uint64_t highest, uint64_t *out) {
    struct tt_textproto_token start = lexer->token;
    bool negative = tt_textproto_lexer_take(lexer, '-');
    uint64_t magnitude = 0;
    enum number_result result = parse_magnitude(&lexer->token, &magnitude);
    if (result == NUMBER_MALFORMED)
        return wrong_kind(lexer, field, negative ? &lexer->token : &start, "an integer");
    uint64_t limit = negative ? (uint64_t)0 - (uint64_t)lowest : highest;
    if (result == NUMBER_TOO_LARGE || magnitude > limit)
        return tt_textproto_lexer_fail(lexer, &start,
                                       "%s%.*s is out of range for field '%s', which goes from "
                                       "%" PRId64 " to %" PRIu64,
                                       negative ? "-" : "",
                                       (int)(lexer->token.length < 40 ? lexer->token.length : 40),
                                       lexer->token.at, field->name, lowest, highest);
    *out = negative ? (uint64_t)0 - magnitude : magnitude;
    tt_textproto_lexer_next(lexer);
    return TT_OK;
}

/* A decimal number with an optional f at the end; hexadecimal and octal are invalid. */
static bool parse_double(const struct tt_textproto_token *token, double *out) {
    char digits[64];
    if (token->kind != TT_TEXTPROTO_NUMBER || token->length >= sizeof(digits))
        return false;
    memcpy(digits, token->at, token->length);
    digits[token->length] = '\0';
    if (digits[0] == '0' && strspn(digits + 1, "0123456789xX") > 0)
        return false;
    size_t length = token->length;
    if (length > 1 && (digits[length - 1] == 'f' || digits[length - 1] == 'F'))
        digits[length - 1] = '\0';
    char *end;
    *out = strtod(digits, &end);
    return *end == '\0';
}

static enum tt_err read_float(struct tt_textproto_lexer *lexer,
                              const ProtobufCFieldDescriptor *field, void *out) {
    struct tt_textproto_token start = lexer->token;
    bool negative = tt_textproto_lexer_take(lexer, '-');
    const struct tt_textproto_token *token = &lexer->token;
    double value;
    bool finite = false;
    if (name_is(token, "inf") || name_is(token, "infinity"))
        value = INFINITY;
    else if (name_is(token, "nan"))
        value = NAN;
    else if (parse_double(token, &value))
        finite = true;
    else
        return wrong_kind(lexer, field, negative ? token : &start, "a number");
    bool single = field->type == PROTOBUF_C_TYPE_FLOAT;
    if (finite && (isinf(value) || (single && isinf((float)value))))
        return tt_textproto_lexer_fail(lexer, &start, "%s%.*s is too large for field '%s' (%s)",
                                       negative ? "-" : "",
                                       (int)(token->length < 40 ? token->length : 40), token->at,
                                       field->name, single ? "float" : "double");
    if (negative)
        value = -value;
    if (single)
        *(float *)out = (float)value;
    else
        *(double *)out = value;
    tt_textproto_lexer_next(lexer);
    return TT_OK;
}

static enum tt_err read_bool(struct tt_textproto_lexer *lexer,
                             const ProtobufCFieldDescriptor *field, protobuf_c_boolean *out) {
    static const char *const spellings[] = {"false", "False", "f", "true", "True", "t"};
    const struct tt_textproto_token *token = &lexer->token;
    uint64_t number;
    int found = -1;
    for (size_t i = 0; i < TT_COUNT(spellings); i++)
        if (name_is_exactly(token, spellings[i]))
            found = i >= 3;
    if (found < 0 && parse_magnitude(token, &number) == NUMBER_OK && number <= 1)
        found = (int)number;
    if (found < 0)
        return wrong_kind(lexer, field, token, "true or false");
    *out = found;
    tt_textproto_lexer_next(lexer);
    return TT_OK;
}

void tt_textproto_names_add(struct tt_textproto_names *self, const char *name) {
    if (self->count == TT_COUNT(self->names))
        return;
    size_t room = self->text_bytes < sizeof(self->text) ? sizeof(self->text) - self->text_bytes : 0;
    if (room > 0)
        self->text_bytes += (size_t)snprintf(self->text + self->text_bytes, room, "%s%s",
                                             self->count > 0 ? ", " : "", name);
    self->names[self->count++] = name;
}

static enum tt_err unknown_enum_name(struct tt_textproto_lexer *lexer,
                                     const ProtobufCFieldDescriptor *field, const char *wrong) {
    const ProtobufCEnumDescriptor *descriptor = field->descriptor;
    struct tt_textproto_names names = {0};
    for (unsigned i = 0; i < descriptor->n_values; i++)
        tt_textproto_names_add(&names, descriptor->values[i].name);
    const char *nearest = tt_textproto_nearest(wrong, names.names, names.count);
    if (nearest)
        return tt_textproto_lexer_fail(lexer, &lexer->token,
                                       "field '%s' cannot be '%s'; did you mean %s?", field->name,
                                       wrong, nearest);
    return tt_textproto_lexer_fail(lexer, &lexer->token,
                                   "field '%s' cannot be '%s'; it is one of: %s", field->name,
                                   wrong, names.text);
}

static enum tt_err read_enum(struct tt_textproto_lexer *lexer,
                             const ProtobufCFieldDescriptor *field, int32_t *out) {
    const ProtobufCEnumDescriptor *descriptor = field->descriptor;
    struct tt_textproto_token start = lexer->token;
    if (start.kind == TT_TEXTPROTO_NAME) {
        char name[128];
        snprintf(name, sizeof(name), "%.*s", (int)(start.length < 120 ? start.length : 120),
                 start.at);
        const ProtobufCEnumValue *value =
            protobuf_c_enum_descriptor_get_value_by_name(descriptor, name);
        if (!value)
            return unknown_enum_name(lexer, field, name);
        *out = value->value;
        tt_textproto_lexer_next(lexer);
        return TT_OK;
    }
    if (start.kind != TT_TEXTPROTO_NUMBER && !tt_textproto_lexer_is(lexer, '-'))
        return wrong_kind(lexer, field, &start, "the name of a value, without quotes");
    uint64_t number = 0;
    enum tt_err err = read_integer(lexer, field, INT32_MIN, INT32_MAX, &number);
    if (err)
        return err;
    if (!protobuf_c_enum_descriptor_get_value(descriptor, (int)(int64_t)number))
        return tt_textproto_lexer_fail(lexer, &start, "field '%s': %s has no value %d", field->name,
                                       descriptor->short_name, (int)(int64_t)number);
    *out = (int32_t)(int64_t)number;
    return TT_OK;
}

static bool is_utf8(const unsigned char *at, size_t length) {
    const unsigned char *end = at + length;
    while (at < end) {
        unsigned char lead = *at++;
        if (lead < 0x80)
            continue;
        int more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
        if (lead < 0xc2 || lead > 0xf4 || end - at < more)
            return false;
        /* Overlong forms, surrogates, and values above U+10FFFF. */
        if ((lead == 0xe0 && at[0] < 0xa0) || (lead == 0xed && at[0] > 0x9f) ||
            (lead == 0xf0 && at[0] < 0x90) || (lead == 0xf4 && at[0] > 0x8f))
            return false;
        for (; more > 0; more--)
            if ((*at++ & 0xc0) != 0x80)
                return false;
    }
    return true;
}

static enum tt_err read_string(struct tt_textproto_lexer *lexer,
                               const ProtobufCFieldDescriptor *field, void *out) {
    struct tt_textproto_token start = lexer->token;
    if (start.kind != TT_TEXTPROTO_STRING)
        return wrong_kind(lexer, field, &start, "a string in quotes");
    struct tt_text bytes;
    tt_text_init(&bytes);
    enum tt_err err = TT_OK;
    while (!err && lexer->token.kind == TT_TEXTPROTO_STRING) {
        err = tt_textproto_lexer_unquote(lexer, &bytes);
        tt_textproto_lexer_next(lexer);
    }
    tt_text_append(&bytes, "", 0); /* allocates, so that an empty string is not NULL */
    bool is_string = field->type == PROTOBUF_C_TYPE_STRING;
    if (!err && bytes.failed)
        err = lexer->err =
            tt_fail(TT_ERR_NO_MEMORY, lexer->why, "%s: out of memory", lexer->file_name);
    else if (!err && is_string && memchr(bytes.bytes, '\0', bytes.length))
        err = tt_textproto_lexer_fail(
            lexer, &start, "field '%s' is text and cannot hold a zero byte", field->name);
    else if (!err && is_string && !is_utf8((unsigned char *)bytes.bytes, bytes.length))
        err = tt_textproto_lexer_fail(lexer, &start, "field '%s' is text and must be UTF-8",
                                      field->name);
    if (err) {
        tt_text_fini(&bytes);
        return err;
    }
    if (is_string) {
        *(char **)out = bytes.bytes;
    } else {
        ProtobufCBinaryData *data = out;
        data->data = (uint8_t *)bytes.bytes;
        data->len = bytes.length;
    }
    return TT_OK;
}

enum tt_err tt_textproto_read_scalar(struct tt_textproto_lexer *lexer,
                                     const ProtobufCFieldDescriptor *field, void *out) {
    uint64_t bits = 0;
    enum tt_err err = TT_OK;
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        err = read_integer(lexer, field, INT32_MIN, INT32_MAX, &bits);
        break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32: err = read_integer(lexer, field, 0, UINT32_MAX, &bits); break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        err = read_integer(lexer, field, INT64_MIN, INT64_MAX, &bits);
        break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64: err = read_integer(lexer, field, 0, UINT64_MAX, &bits); break;
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_DOUBLE: return read_float(lexer, field, out);
    case PROTOBUF_C_TYPE_BOOL: return read_bool(lexer, field, out);
    case PROTOBUF_C_TYPE_ENUM: return read_enum(lexer, field, out);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES: return read_string(lexer, field, out);
    case PROTOBUF_C_TYPE_MESSAGE: tt_assert(field->type != PROTOBUF_C_TYPE_MESSAGE); break;
    }
    if (err)
        return err;
    if (tt_textproto_value_bytes(field->type) == 4)
        *(uint32_t *)out = (uint32_t)bits;
    else
        *(uint64_t *)out = bits;
    return TT_OK;
}

/* The number of edits (insert, delete, replace) from `a` to `b`. */
static size_t edit_distance(const char *a, const char *b) {
    size_t row[65];
    size_t length_b = strlen(b);
    if (length_b >= TT_COUNT(row))
        return SIZE_MAX;
    for (size_t j = 0; j <= length_b; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= length_b; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[length_b];
}

const char *tt_textproto_nearest(const char *wrong, const char *const *names, size_t count) {
    const char *nearest = NULL;
    size_t least = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        size_t distance = edit_distance(wrong, names[i]);
        if (distance < least) {
            least = distance;
            nearest = names[i];
        }
    }
    /* If more than a quarter differs, it is another word and not a typing error. */
    return nearest && least <= (strlen(wrong) + 3) / 4 ? nearest : NULL;
}
