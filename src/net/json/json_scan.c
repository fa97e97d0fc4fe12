#include "net/json/json_scan.h"

#include <string.h>

void tt_json_init(struct tt_json *self, const char *text, size_t length, struct tt_error *why) {
    *self = (struct tt_json){.start = text,
                             .at = text,
                             .end = text + length,
                             .why = why,
                             .max_depth = TT_JSON_MAX_DEPTH};
}

char tt_json_peek_behind_space(struct tt_json *self) {
    const char *at = self->at;
    while (at < self->end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
        at++;
    self->at = at;
    return at < self->end ? *at : '\0';
}

enum tt_err tt_json_expected(struct tt_json *self, const char *what) {
    size_t offset = (size_t)(self->at - self->start);
    if (self->at >= self->end)
        return tt_fail(TT_ERR_INVALID, self->why,
                       "JSON, byte %zu: expected %s, but the text ends here", offset, what);
    unsigned char c = (unsigned char)*self->at;
    if (c >= 0x20 && c < 0x7f)
        return tt_fail(TT_ERR_INVALID, self->why, "JSON, byte %zu: expected %s, found '%c'", offset,
                       what, c);
    return tt_fail(TT_ERR_INVALID, self->why, "JSON, byte %zu: expected %s, found the byte 0x%02x",
                   offset, what, c);
}

enum tt_err tt_json_open(struct tt_json *self, char bracket) {
    if (tt_json_peek(self) != bracket)
        return tt_json_expected(self, bracket == '{' ? "an object ('{')" : "an array ('[')");
    self->at++;
    return TT_OK;
}

enum tt_err tt_json_next(struct tt_json *self, char close, bool *first, bool *out_more) {
    char c = tt_json_peek(self);
    if (c == close && self->at < self->end) {
        self->at++;
        *out_more = false;
        return TT_OK;
    }
    if (!*first) {
        if (c != ',')
            return tt_json_expected(self, close == '}' ? "',' or '}'" : "',' or ']'");
        self->at++;
        if (tt_json_peek(self) == close)
            return tt_json_expected(self, "another member after ','");
    }
    *first = false;
    *out_more = true;
    return TT_OK;
}

/* The first byte of a string that does not stand for itself (a quote, a backslash, a control
 * character), or `end`. Eight bytes are looked at together: a top bit is set where one is special.
 * A borrow can set others only above the first. */
static const char *plain_end(const char *at, const char *end) {
    static const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones << 7;
    for (; end - at >= 8; at += 8) {
        uint64_t eight;
        memcpy(&eight, at, sizeof(eight));
        if (__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__)
            eight = __builtin_bswap64(eight);
        uint64_t quote = eight ^ ones * '"', backslash = eight ^ ones * '\\';
        uint64_t special = (((quote - ones) & ~quote) | ((backslash - ones) & ~backslash) |
                            ((eight - ones * 0x20) & ~eight)) &
                           tops;
        if (special)
            return at + __builtin_ctzll(special) / 8;
    }
    while (at < end && *at != '"' && *at != '\\' && (unsigned char)*at >= 0x20)
        at++;
    return at;
}

/* Fast path for a string without escapes that fits, with its quote at `at`: copies it,
 * NUL-terminated, and returns the place after it. NULL: take the slow path. */
static const char *plain_string(const struct tt_json *self, char *out, size_t capacity,
                                size_t *out_length) {
    const char *from = self->at + 1;
    const char *limit = (size_t)(self->end - from) > capacity ? from + capacity : self->end;
    const char *at = plain_end(from, limit);
    if (at == limit || *at != '"')
        return NULL;
    *out_length = (size_t)(at - from);
    memcpy(out, from, *out_length);
    out[*out_length] = '\0';
    return at + 1;
}

enum tt_err tt_json_key(struct tt_json *self, char *out_key, size_t capacity) {
    if (tt_json_peek(self) != '"')
        return tt_json_expected(self, "a member's name in quotes");
    const char *from = self->at;
    size_t length;
    const char *after_string = plain_string(self, out_key, capacity, &length);
    if (after_string) {
        self->at = after_string;
        if (tt_json_peek(self) != ':')
            return tt_json_expected(self, "':' after the member's name");
        self->at++;
        return TT_OK;
    }
    enum tt_err err = tt_json_string(self, NULL, &length);
    if (err)
        return err;
    if (tt_json_peek(self) != ':')
        return tt_json_expected(self, "':' after the member's name");
    const char *after = self->at + 1;
    out_key[0] = '\0';
    if (length < capacity) {
        self->at = from;
        err = tt_json_string(self, out_key, &length);
        if (err)
            return err;
        out_key[memchr(out_key, '\0', length) ? 0 : length] = '\0';
    }
    self->at = after;
    return TT_OK;
}

static int hex4(const char *at, const char *end) {
    if (end - at < 4)
        return -1;
    int value = 0;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

static size_t utf8_write(uint32_t point, char out[4]) {
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    size_t count = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = count - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (point & 0x3f));
        point >>= 6;
    }
    out[0] = (char)((0xf00 >> count) | point);
    return count;
}

/* After a backslash: writes the character to `out` and returns its bytes; 0 on a bad escape. */
static size_t unescape(const char **at, const char *end, char out[4]) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (*at >= end)
        return 0;
    char c = *(*at)++;
    if (c != 'u') {
        const char *found = c ? strchr(from, c) : NULL;
        if (!found)
            return 0;
        out[0] = to[found - from];
        return 1;
    }
    int unit = hex4(*at, end);
    if (unit < 0 || (unit >= 0xdc00 && unit < 0xe000))
        return 0;
    *at += 4;
    if (unit < 0xd800 || unit >= 0xe000)
        return utf8_write((uint32_t)unit, out);
    if (end - *at < 6 || (*at)[0] != '\\' || (*at)[1] != 'u')
        return 0;
    int low = hex4(*at + 2, end);
    if (low < 0xdc00 || low >= 0xe000)
        return 0;
    *at += 6;
    return utf8_write(0x10000u + (((uint32_t)unit & 0x3ff) << 10) + ((uint32_t)low & 0x3ff), out);
}

bool tt_json_string_plain(struct tt_json *self, const char **out_string, size_t *out_length) {
    if (tt_json_peek(self) != '"')
        return false;
    const char *from = self->at + 1, *at = plain_end(from, self->end);
    if (at == self->end || *at != '"')
        return false;
    *out_string = from;
    *out_length = (size_t)(at - from);
    self->at = at + 1;
    return true;
}

enum tt_err tt_json_name(struct tt_json *self, char *buffer, size_t capacity, const char **out_name,
                         size_t *out_bytes) {
    const char *from = self->at;
    if (tt_json_string_plain(self, out_name, out_bytes) && tt_json_peek(self) == ':') {
        self->at++;
        return TT_OK;
    }
    self->at = from;
    enum tt_err err = tt_json_key(self, buffer, capacity);
    if (err)
        return err;
    *out_name = buffer;
    *out_bytes = strlen(buffer);
    return TT_OK;
}

enum tt_err tt_json_string(struct tt_json *self, char *to, size_t *out_length) {
    if (tt_json_peek(self) != '"')
        return tt_json_expected(self, "a string in quotes");
    const char *at = self->at + 1;
    size_t length = 0;
    for (;;) {
        const char *plain = at;
        at = plain_end(at, self->end);
        if (to && at > plain)
            memcpy(to + length, plain, (size_t)(at - plain));
        length += (size_t)(at - plain);
        if (at >= self->end || (unsigned char)*at < 0x20) {
            self->at = at;
            return tt_json_expected(self, "the string to go on or to be closed with '\"' (control "
                                          "characters are written as \\u00XX)");
        }
        if (*at++ == '"')
            break;
        char bytes[4];
        const char *escape = at;
        size_t count = unescape(&at, self->end, bytes);
        if (!count) {
            self->at = escape;
            return tt_json_expected(self, "an escape (one of \"\\/bfnrt, or uXXXX with both halves "
                                          "of a surrogate pair) after '\\'");
        }
        if (to)
            memcpy(to + length, bytes, count);
        length += count;
    }
    self->at = at;
    *out_length = length;
    return TT_OK;
}

enum tt_err tt_json_string_z(struct tt_json *self, const char *what, char *out_string,
                             size_t capacity) {
    if (tt_json_peek(self) != '"') {
        enum tt_err err = tt_json_expected(self, "a string in quotes");
        return tt_fail_in(err, self->why, "\"%s\"", what);
    }
    const char *from = self->at;
    size_t length;
    const char *after_string = plain_string(self, out_string, capacity, &length);
    if (after_string) {
        self->at = after_string;
        return TT_OK;
    }
    enum tt_err err = tt_json_string(self, NULL, &length);
    if (err)
        return err;
    if (length >= capacity)
        return tt_fail(TT_ERR_INVALID, self->why,
                       "JSON, byte %zu: \"%s\" is %zu bytes long; the maximum is %zu",
                       (size_t)(from - self->start), what, length, capacity - 1);
    self->at = from;
    err = tt_json_string(self, out_string, &length);
    if (err)
        return err;
    out_string[length] = '\0';
    if (strlen(out_string) != length)
        return tt_fail(TT_ERR_INVALID, self->why,
                       "JSON, byte %zu: \"%s\" must not hold a NUL character",
                       (size_t)(from - self->start), what);
    return TT_OK;
}

/* The value of eight digits; false: not all are digits. All bytes are processed at once: first as
 * digits, then combined to pairs, fours and eight. The first digit is in the lowest byte. */
static bool eight_digits(const char *at, uint64_t *out_value) {
    uint64_t bytes = 0;
    memcpy(&bytes, at, sizeof(bytes));
    if (__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__)
        bytes = __builtin_bswap64(bytes);
    bytes -= 0x3030303030303030u;
    /* Not a digit: above 9, or below 0 (high bit set), or next to such a byte (borrow). */
    if ((bytes | (bytes + 0x7676767676767676u)) & 0x8080808080808080u)
        return false;
    bytes = (bytes * 10 + (bytes >> 8)) & 0x00ff00ff00ff00ffu;
    bytes = (bytes * 100 + (bytes >> 16)) & 0x0000ffff0000ffffu;
    *out_value = (bytes * 10000 + (bytes >> 32)) & 0xffffffffu;
    return true;
}

/* Adds digits to the mantissa; returns how many there were. Digits that do not fit clear `exact`.
 */
static int take_digits(struct tt_json *self, struct tt_json_number *number, bool is_fraction) {
    const uint64_t room_for_eight = UINT64_MAX / 100000000 - 1, room_for_one = UINT64_MAX / 10 - 1;
    const char *at = self->at, *end = self->end;
    uint64_t mantissa = number->mantissa, eight;
    if (number->exact) {
        while (end - at >= 8 && (unsigned char)(at[7] - '0') < 10 && mantissa <= room_for_eight &&
               eight_digits(at, &eight)) {
            mantissa = mantissa * 100000000 + eight;
            at += 8;
        }
        for (; at < end && mantissa <= room_for_one; at++) {
            unsigned char digit = (unsigned char)(*at - '0');
            if (digit >= 10)
                break;
            mantissa = mantissa * 10 + digit;
        }
    }
    number->exponent10 -= is_fraction ? (int32_t)(at - self->at) : 0;
    while (at < self->end && (unsigned char)(*at - '0') < 10) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (mantissa > (UINT64_MAX - digit) / 10)
            number->exact = false;
        else if (number->exact) {
            mantissa = mantissa * 10 + digit;
            number->exponent10 -= is_fraction;
        }
        at++;
    }
    int count =
        (int)(at - self->at > TT_JSON_MAX_NUMBER_BYTES ? TT_JSON_MAX_NUMBER_BYTES : at - self->at);
    number->mantissa = mantissa;
    self->at = at;
    return count;
}

static enum tt_err take_exponent(struct tt_json *self, struct tt_json_number *number) {
    self->at++;
    bool negative = self->at < self->end && *self->at == '-';
    if (self->at < self->end && (*self->at == '-' || *self->at == '+'))
        self->at++;
    struct tt_json_number exponent = {.exact = true};
    if (!take_digits(self, &exponent, false))
        return tt_json_expected(self, "digits of the exponent");
    if (!exponent.exact || exponent.mantissa > 100000)
        number->exact = false; /* strtod decides */
    else
        number->exponent10 += negative ? -(int32_t)exponent.mantissa : (int32_t)exponent.mantissa;
    return TT_OK;
}

enum tt_err tt_json_number(struct tt_json *self, struct tt_json_number *out_number) {
    tt_json_peek(self);
    struct tt_json_number number = {.text = self->at, .is_integer = true, .exact = true};
    if (self->at < self->end && *self->at == '-') {
        number.negative = true;
        self->at++;
    }
    const char *digits = self->at;
    int count = take_digits(self, &number, false);
    if (count == 0)
        return tt_json_expected(self, "a number");
    if (*digits == '0' && count > 1) {
        self->at = digits + 1;
        return tt_json_expected(self, "no further digit after a leading 0");
    }
    if (self->at < self->end && *self->at == '.') {
        self->at++;
        number.is_integer = false;
        if (take_digits(self, &number, true) == 0)
            return tt_json_expected(self, "digits after the decimal point");
    }
    if (self->at < self->end && (*self->at == 'e' || *self->at == 'E')) {
        number.is_integer = false;
        enum tt_err err = take_exponent(self, &number);
        if (err)
            return err;
    }
    number.length = (size_t)(self->at - number.text);
    if (number.length >= TT_JSON_MAX_NUMBER_BYTES)
        return tt_fail(TT_ERR_INVALID, self->why,
                       "JSON, byte %zu: a number of %zu characters; the maximum is %d",
                       (size_t)(number.text - self->start), number.length,
                       TT_JSON_MAX_NUMBER_BYTES - 1);
    *out_number = number;
    return TT_OK;
}

/* Fast path for up to 18 digits that are the whole number. False: take the slow path. */
static bool plain_integer(struct tt_json *self, int64_t *out_value) {
    (void)tt_json_peek(self);
    const char *from = self->at, *at = from;
    int64_t value = 0;
    for (; at < self->end && at - from < 18 && (unsigned char)(*at - '0') < 10; at++)
        value = value * 10 + (*at - '0');
    bool has_leading_zero = at - from > 1 && *from == '0';
    if (at == from || at == self->end || has_leading_zero ||
        (*at != ',' && *at != ']' && *at != '}'))
        return false;
    self->at = at;
    *out_value = value;
    return true;
}

enum tt_err tt_json_integer(struct tt_json *self, const char *what, int64_t lowest, int64_t highest,
                            int64_t *out_value) {
    struct tt_json_number number;
    const char *before = self->at;
    int64_t plain;
    if (plain_integer(self, &plain) && plain >= lowest && plain <= highest) {
        *out_value = plain;
        return TT_OK;
    }
    self->at = before;
    enum tt_err err = tt_json_number(self, &number);
    if (err)
        return tt_fail_in(err, self->why, "\"%s\"", what);
    bool fits = number.is_integer && number.exact && number.mantissa <= INT64_MAX;
    int64_t value = fits ? (int64_t)number.mantissa : 0;
    if (number.negative)
        value = -value;
    if (!fits || value < lowest || value > highest)
        return tt_fail(
            TT_ERR_INVALID, self->why,
            "JSON, byte %zu: \"%s\" is %.*s; it must be an integer between %lld and %lld",
            (size_t)(number.text - self->start), what,
            (int)(number.length < 40 ? number.length : 40), number.text, (long long)lowest,
            (long long)highest);
    *out_value = value;
    return TT_OK;
}

static bool take_word(struct tt_json *self, const char *word) {
    size_t length = strlen(word);
    if ((size_t)(self->end - self->at) < length || memcmp(self->at, word, length) != 0)
        return false;
    self->at += length;
    return true;
}

enum tt_err tt_json_bool(struct tt_json *self, const char *what, bool *out_value) {
    tt_json_peek(self);
    if (take_word(self, "true"))
        *out_value = true;
    else if (take_word(self, "false"))
        *out_value = false;
    else
        return tt_fail_in(tt_json_expected(self, "true or false"), self->why, "\"%s\"", what);
    return TT_OK;
}

static enum tt_err skip_value(struct tt_json *self, int depth) {
    char c = tt_json_peek(self);
    size_t length;
    struct tt_json_number number;
    if (c == '"')
        return tt_json_string(self, NULL, &length);
    if (c == '-' || (c >= '0' && c <= '9'))
        return tt_json_number(self, &number);
    if (c != '{' && c != '[') {
        if (take_word(self, "true") || take_word(self, "false") || take_word(self, "null"))
            return TT_OK;
        return tt_json_expected(self, "a value");
    }
    if (depth >= self->max_depth)
        return tt_fail(TT_ERR_INVALID, self->why,
                       "JSON, byte %zu: nested deeper than %d levels, the maximum",
                       (size_t)(self->at - self->start), self->max_depth);
    self->at++;
    char close = c == '{' ? '}' : ']';
    bool first = true, more;
    for (;;) {
        enum tt_err err = tt_json_next(self, close, &first, &more);
        if (err || !more)
            return err;
        char key[1];
        if (c == '{')
            err = tt_json_key(self, key, sizeof(key));
        if (!err)
            err = skip_value(self, depth + 1);
        if (err)
            return err;
    }
}

enum tt_err tt_json_skip(struct tt_json *self) { return skip_value(self, 0); }

enum tt_err tt_json_skip_array_unchecked(struct tt_json *self) {
    if (tt_json_peek(self) != '[')
        return tt_json_expected(self, "an array ('[')");
    const char *at = self->at;
    /* Most arrays contain only numbers. */
    const char *close = memchr(at, ']', (size_t)(self->end - at));
    if (close && !memchr(at + 1, '[', (size_t)(close - at - 1)) &&
        !memchr(at + 1, '"', (size_t)(close - at - 1))) {
        self->at = close + 1;
        return TT_OK;
    }
    int64_t depth = 0;
    for (; at < self->end; at++) {
        if (*at == '[') {
            depth++;
        } else if (*at == ']') {
            if (--depth == 0) {
                self->at = at + 1;
                return TT_OK;
            }
        } else if (*at == '"') {
            for (at = plain_end(at + 1, self->end); at < self->end && *at != '"';
                 at = plain_end(at + 1, self->end))
                at += *at == '\\';
        }
    }
    self->at = self->end;
    return tt_json_expected(self, "the array to be closed with ']'");
}

enum tt_err tt_json_end(struct tt_json *self) {
    tt_json_peek(self);
    return self->at == self->end ? TT_OK : tt_json_expected(self, "the end of the text");
}
