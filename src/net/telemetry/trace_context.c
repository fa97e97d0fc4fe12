#include "net/telemetry/trace_context.h"

#include "base/hex.h"

#include <string.h>

enum { TRACE_AT = 3, SPAN_AT = 36, FLAGS_AT = 53 }; /* in a traceparent, each behind a dash */

/* --- traceparent --- */

/* The standard allows lower-case digits only. */
static bool read_hex(const char *digits, size_t count, uint8_t *out_bytes) {
    return tt_hex_read(digits, count, true, out_bytes);
}

static bool is_zero(const uint8_t *bytes, size_t count) {
    uint8_t any = 0;
    for (size_t i = 0; i < count; i++)
        any |= bytes[i];
    return any == 0;
}

/* VERSION-TRACE_ID-PARENT_ID-FLAGS. A later version may be longer, behind another dash; version ff
 * is not allowed. */
static bool read_parent(const char *value, size_t value_bytes, struct tt_trace_context *out) {
    uint8_t version, flags;
    if (value_bytes < TT_TRACEPARENT_BYTES || !read_hex(value, 1, &version) || version == 0xff)
        return false;
    if (value_bytes > TT_TRACEPARENT_BYTES && (version == 0 || value[TT_TRACEPARENT_BYTES] != '-'))
        return false;
    if (value[TRACE_AT - 1] != '-' || value[SPAN_AT - 1] != '-' || value[FLAGS_AT - 1] != '-')
        return false;
    if (!read_hex(value + TRACE_AT, TT_TRACE_ID_BYTES, out->trace_id) ||
        !read_hex(value + SPAN_AT, TT_SPAN_ID_BYTES, out->span_id) ||
        !read_hex(value + FLAGS_AT, 1, &flags))
        return false;
    out->is_sampled = flags & 1;
    return !is_zero(out->trace_id, TT_TRACE_ID_BYTES) && !is_zero(out->span_id, TT_SPAN_ID_BYTES);
}

void tt_trace_headers_add_parent(struct tt_trace_headers *self, const char *value,
                                 size_t value_bytes) {
    self->parent_count++;
    self->is_valid = self->parent_count == 1 && read_parent(value, value_bytes, &self->context);
}

void tt_traceparent_write(const struct tt_trace_context *context, char out[TT_TRACEPARENT_BYTES]) {
    const uint8_t version = 0, flags = context->is_sampled;
    tt_hex_write(&version, 1, out);
    tt_hex_write(context->trace_id, TT_TRACE_ID_BYTES, out + TRACE_AT);
    tt_hex_write(context->span_id, TT_SPAN_ID_BYTES, out + SPAN_AT);
    tt_hex_write(&flags, 1, out + FLAGS_AT);
    out[TRACE_AT - 1] = out[SPAN_AT - 1] = out[FLAGS_AT - 1] = '-';
}

/* --- tracestate --- */

static bool is_key_start(char c, bool digit_may) {
    return (c >= 'a' && c <= 'z') || (digit_may && c >= '0' && c <= '9');
}

static bool is_key_rest(const char *key, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!is_key_start(key[i], true) && key[i] != '_' && key[i] != '-' && key[i] != '*' &&
            key[i] != '/')
            return false;
    return true;
}

/* NAME, or TENANT@SYSTEM. */
static bool is_key(const char *key, size_t count) {
    enum { NAME_BYTES = 256, TENANT_BYTES = 241, SYSTEM_BYTES = 14 };
    const char *at = memchr(key, '@', count);
    if (!at)
        return count >= 1 && count <= NAME_BYTES && is_key_start(key[0], false) &&
               is_key_rest(key, count);
    size_t tenant = (size_t)(at - key), system = count - tenant - 1;
    return tenant >= 1 && tenant <= TENANT_BYTES && is_key_start(key[0], true) &&
           is_key_rest(key, tenant) && system >= 1 && system <= SYSTEM_BYTES &&
           is_key_start(at[1], false) && is_key_rest(at + 1, system);
}

/* Printable, without comma and '='; its last byte is no blank. */
static bool is_value(const char *value, size_t count) {
    enum { VALUE_BYTES = 256 };
    for (size_t i = 0; i < count; i++)
        if (value[i] < ' ' || value[i] > '~' || value[i] == ',' || value[i] == '=')
            return false;
    return count >= 1 && count <= VALUE_BYTES && value[count - 1] != ' ';
}

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

struct member {
    const char *key;
    size_t key_bytes;
};

static bool is_known(const struct member *members, int32_t count, const struct member *wanted) {
    for (int32_t i = 0; i < count; i++)
        if (members[i].key_bytes == wanted->key_bytes &&
            memcmp(members[i].key, wanted->key, wanted->key_bytes) == 0)
            return true;
    return false;
}

/* A list of KEY=VALUE between commas. Members may be empty; a key may be there once. */
static bool is_state(const char *state, size_t count) {
    struct member members[TT_TRACE_STATE_MEMBERS];
    int32_t member_count = 0;
    const char *end = state + count;
    for (const char *at = state; at < end;) {
        const char *comma = memchr(at, ',', (size_t)(end - at)), *stop = comma ? comma : end;
        const char *next = comma ? comma + 1 : end;
        while (at < stop && is_blank(*at))
            at++;
        while (stop > at && is_blank(stop[-1]))
            stop--;
        if (at < stop) {
            const char *equals = memchr(at, '=', (size_t)(stop - at));
            if (!equals || member_count == TT_TRACE_STATE_MEMBERS)
                return false;
            struct member member = {.key = at, .key_bytes = (size_t)(equals - at)};
            if (!is_key(member.key, member.key_bytes) ||
                !is_value(equals + 1, (size_t)(stop - equals - 1)) ||
                is_known(members, member_count, &member))
                return false;
            members[member_count++] = member;
        }
        at = next;
    }
    return true;
}

void tt_trace_headers_add_state(struct tt_trace_headers *self, const char *value,
                                size_t value_bytes) {
    struct tt_trace_context *context = &self->context;
    size_t comma = context->state_bytes ? 1 : 0;
    if (value_bytes == 0 || self->is_state_bad)
        return;
    if (context->state_bytes + comma + value_bytes > TT_TRACE_STATE_BYTES) {
        self->is_state_bad = true;
        return;
    }
    if (comma)
        context->state[context->state_bytes] = ',';
    memcpy(context->state + context->state_bytes + comma, value, value_bytes);
    context->state_bytes = (uint16_t)(context->state_bytes + comma + value_bytes);
}

const struct tt_trace_context *tt_trace_headers_take(struct tt_trace_headers *self) {
    struct tt_trace_context *context = &self->context;
    if (!self->is_valid)
        return NULL;
    if (self->is_state_bad || !is_state(context->state, context->state_bytes))
        context->state_bytes = 0;
    return context;
}
