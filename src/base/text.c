#include "base/text.h"

#include "base/durable_file.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tt_text_init(struct tt_text *self) { *self = (struct tt_text){0}; }

void tt_text_fini(struct tt_text *self) {
    free(self->bytes);
    *self = (struct tt_text){0};
}

void tt_text_clear(struct tt_text *self) {
    self->length = 0;
    self->failed = false;
    if (self->bytes)
        self->bytes[0] = '\0';
}

char *tt_text_reserve(struct tt_text *self, size_t extra) {
    if (self->failed)
        return NULL;
    if (extra >= SIZE_MAX / 2 - self->length) {
        self->failed = true;
        return NULL;
    }
    size_t needed = self->length + extra + 1;
    if (needed > self->capacity) {
        size_t capacity = self->capacity < 128 ? 128 : self->capacity;
        while (capacity < needed)
            capacity *= 2;
        char *bytes = realloc(self->bytes, capacity);
        if (!bytes) {
            self->failed = true;
            return NULL;
        }
        self->bytes = bytes;
        self->capacity = capacity;
    }
    return self->bytes + self->length;
}

void tt_text_append(struct tt_text *self, const void *bytes, size_t count) {
    bool has_room = !self->failed && count < self->capacity - self->length;
    char *to = has_room ? self->bytes + self->length : tt_text_reserve(self, count);
    if (!to)
        return;
    if (count)
        memcpy(to, bytes, count);
    to[count] = '\0';
    self->length += count;
}

size_t tt_text_write_unsigned(uint64_t value, char *out) {
    size_t count = 1;
    for (uint64_t limit = 10; count < TT_INTEGER_TEXT_BYTES && value >= limit; limit *= 10)
        count++;
    for (size_t at = count; at > 0; value /= 10)
        out[--at] = (char)('0' + value % 10);
    return count;
}

size_t tt_text_write_integer(int64_t value, char *out) {
    if (value >= 0)
        return tt_text_write_unsigned((uint64_t)value, out);
    out[0] = '-';
    return 1 + tt_text_write_unsigned(0 - (uint64_t)value, out + 1);
}

void tt_text_put_integer(struct tt_text *self, int64_t value) {
    char digits[TT_INTEGER_TEXT_BYTES];
    tt_text_append(self, digits, tt_text_write_integer(value, digits));
}

typedef unsigned char many __attribute__((vector_size(16)));

static bool are_plain(const char *bytes, char special, char other) {
    const unsigned char first = ' ', span = '~' - ' ';
    many here;
    uint64_t bad[sizeof(many) / sizeof(uint64_t)];
    memcpy(&here, bytes, sizeof(here));
    many is_bad = (many)((here - first > span) | (here == (unsigned char)special) |
                         (here == (unsigned char)other));
    memcpy(bad, &is_bad, sizeof(bad));
    return !(bad[0] | bad[1]);
}

/* Sixteen at a time, while all of them are plain; the rest is looked at one by one. */
size_t tt_text_plain_bytes(const char *bytes, size_t length, char special, char other) {
    size_t i = 0;
    while (i + sizeof(many) <= length && are_plain(bytes + i, special, other))
        i += sizeof(many);
    /* The last sixteen, of which some are known. */
    if (i > 0 && length - i < sizeof(many) &&
        are_plain(bytes + length - sizeof(many), special, other))
        return length;
    while (i < length && bytes[i] >= 0x20 && bytes[i] < 0x7f && bytes[i] != special &&
           bytes[i] != other)
        i++;
    return i;
}

void tt_text_put_xml(struct tt_text *self, const char *string) {
    for (const char *c = string; *c; c++)
        switch (*c) {
        case '<': tt_text_puts(self, "&lt;"); break;
        case '>': tt_text_puts(self, "&gt;"); break;
        case '&': tt_text_puts(self, "&amp;"); break;
        case '"': tt_text_puts(self, "&quot;"); break;
        case '\'': tt_text_puts(self, "&#39;"); break;
        default:
            if ((unsigned char)*c >= ' ')
                tt_text_append(self, c, 1);
        }
}

void tt_text_printf(struct tt_text *self, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    char small[256];
    int length = vsnprintf(small, sizeof(small), format, args);
    va_end(args);
    if (length >= 0 && (size_t)length < sizeof(small)) {
        tt_text_append(self, small, (size_t)length);
    } else if (length >= 0) {
        char *to = tt_text_reserve(self, (size_t)length);
        if (to) {
            vsnprintf(to, (size_t)length + 1, format, again);
            self->length += (size_t)length;
        }
    } else {
        self->failed = true;
    }
    va_end(again);
}

const char *tt_text_string(const struct tt_text *self) { return self->length ? self->bytes : ""; }

enum tt_err tt_text_read_file(const char *path, size_t limit_bytes, struct tt_text *out_text,
                              struct tt_error *why) {
    FILE *file = fopen(path, "rb");
    if (!file)
        return tt_fail(errno == ENOENT ? TT_ERR_NOT_FOUND : TT_ERR_IO, why, "%s: %s", path,
                       strerror(errno));
    struct tt_text text;
    tt_text_init(&text);
    enum tt_err err = TT_OK;
    for (;;) {
        char *to = tt_text_reserve(&text, 65536);
        if (!to) {
            err = tt_fail(TT_ERR_NO_MEMORY, why, "%s: out of memory while reading", path);
            break;
        }
        size_t got = fread(to, 1, 65536, file);
        text.length += got;
        to[got] = '\0';
        if (text.length > limit_bytes) {
            err = tt_fail(TT_ERR_INVALID, why, "%s: larger than the limit of %zu bytes", path,
                          limit_bytes);
            break;
        }
        if (got == 0) {
            if (ferror(file))
                err = tt_fail(TT_ERR_IO, why, "%s: %s", path, strerror(errno));
            break;
        }
    }
    fclose(file);
    if (err) {
        tt_text_fini(&text);
        return err;
    }
    *out_text = text;
    return TT_OK;
}

enum tt_err tt_text_write_file(const char *path, const struct tt_text *text, struct tt_error *why) {
    if (text->failed)
        return tt_fail(TT_ERR_NO_MEMORY, why, "%s: out of memory while composing it", path);
    struct tt_durable_out out;
    enum tt_err err = tt_durable_begin(&out, path, why);
    if (err)
        return err;
    if (text->length)
        (void)!fwrite(text->bytes, 1, text->length, out.file); /* _end says whether it worked */
    return tt_durable_end(&out, TT_OK, why);
}
