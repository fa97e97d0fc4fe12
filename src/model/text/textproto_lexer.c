#include "model/text/textproto_lexer.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Character classes of the format, independent of the locale. */
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool is_word(char c) { return is_letter(c) || is_digit(c); }

static void skip_blank(struct tt_textproto_lexer *self) {
    while (self->at < self->end) {
        char c = *self->at;
        if (c == '\n') {
            self->at++;
            self->line++;
            self->line_start = self->at;
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f') {
            self->at++;
        } else if (c == '#') {
            while (self->at < self->end && *self->at != '\n')
                self->at++;
        } else {
            return;
        }
    }
}

/* A number is digits, letters (hex, exponents, the f of floats), dots, and a sign after an
 * exponent's e. */
static const char *number_end(const char *at, const char *end) {
    bool is_hex = end - at > 1 && at[0] == '0' && (at[1] == 'x' || at[1] == 'X');
    while (at < end) {
        if (is_word(*at) || *at == '.') {
            bool exponent = !is_hex && (*at == 'e' || *at == 'E');
            at++;
            if (exponent && at < end && (*at == '+' || *at == '-'))
                at++;
        } else {
            break;
        }
    }
    return at;
}

static const char *string_end(struct tt_textproto_lexer *self) {
    const char *at = self->at + 1;
    while (at < self->end && *at != *self->at) {
        if (*at == '\\' && self->end - at > 1)
            at++;
        if (*at == '\n') {
            tt_textproto_lexer_fail(self, &self->token,
                                    "this string does not end on its line; close it with %c, and "
                                    "write \\n for a line break",
                                    *self->at);
            return NULL;
        }
        at++;
    }
    if (at >= self->end) {
        tt_textproto_lexer_fail(self, &self->token, "this string is never closed with %c",
                                *self->at);
        return NULL;
    }
    return at + 1;
}

void tt_textproto_lexer_next(struct tt_textproto_lexer *self) {
    skip_blank(self);
    struct tt_textproto_token *token = &self->token;
    *token = (struct tt_textproto_token){
        .kind = TT_TEXTPROTO_END,
        .at = self->at,
        .line = self->line,
        .column = (int32_t)(self->at - self->line_start) + 1,
    };
    if (self->err || self->at >= self->end)
        return;
    char c = *self->at;
    const char *end = self->at + 1;
    if (is_letter(c)) {
        while (end < self->end && is_word(*end))
            end++;
        token->kind = TT_TEXTPROTO_NAME;
    } else if (is_digit(c) || (c == '.' && end < self->end && is_digit(*end))) {
        end = number_end(self->at, self->end);
        token->kind = TT_TEXTPROTO_NUMBER;
    } else if (c == '"' || c == '\'') {
        end = string_end(self);
        if (!end)
            return;
        token->kind = TT_TEXTPROTO_STRING;
    } else {
        token->kind = TT_TEXTPROTO_SYMBOL;
    }
    token->length = (size_t)(end - self->at);
    self->at = end;
}

void tt_textproto_lexer_init(struct tt_textproto_lexer *self, const char *file_name,
                             const char *text, size_t length, struct tt_error *why) {
    *self = (struct tt_textproto_lexer){
        .file_name = file_name,
        .at = text,
        .end = text + length,
        .line_start = text,
        .line = 1,
        .why = why,
    };
    /* Some editors write a byte order mark. */
    if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        self->at = self->line_start = text + 3;
    tt_textproto_lexer_next(self);
}

bool tt_textproto_lexer_is(const struct tt_textproto_lexer *self, char symbol) {
    return self->token.kind == TT_TEXTPROTO_SYMBOL && *self->token.at == symbol;
}

bool tt_textproto_lexer_take(struct tt_textproto_lexer *self, char symbol) {
    bool is = tt_textproto_lexer_is(self, symbol);
    if (is)
        tt_textproto_lexer_next(self);
    return is;
}

enum tt_err tt_textproto_lexer_fail(struct tt_textproto_lexer *self,
                                    const struct tt_textproto_token *at, const char *format, ...) {
    if (self->err)
        return self->err;
    struct tt_error inner;
    va_list args;
    va_start(args, format);
    vsnprintf(inner.text, sizeof(inner.text), format, args);
    va_end(args);
    self->err = tt_fail(TT_ERR_INVALID, self->why, "%s:%d:%d: %s", self->file_name, at->line,
                        at->column, inner.text);
    return self->err;
}

const char *tt_textproto_token_show(const struct tt_textproto_token *token, char *buffer,
                                    size_t capacity) {
    if (token->kind == TT_TEXTPROTO_END) {
        snprintf(buffer, capacity, "the end of the file");
    } else if (token->kind == TT_TEXTPROTO_SYMBOL &&
               ((unsigned char)*token->at < 0x20 || (unsigned char)*token->at >= 0x7f)) {
        snprintf(buffer, capacity, "the byte 0x%02x", (unsigned char)*token->at);
    } else {
        int length = token->length > 40 ? 40 : (int)token->length;
        snprintf(buffer, capacity, "'%.*s%s'", length, token->at, token->length > 40 ? "..." : "");
    }
    return buffer;
}

static int digit_value(char c) {
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return 16;
}

/* Reads up to `most` digits of `base`; returns their number. */
static int read_digits(const char **at, const char *end, int base, int most, uint32_t *out) {
    int count = 0;
    for (*out = 0; count < most && *at < end && digit_value(**at) < base; count++)
        *out = *out * (uint32_t)base + (uint32_t)digit_value(*(*at)++);
    return count;
}

static void append_utf8(struct tt_text *to, uint32_t rune) {
    char bytes[4];
    size_t count = 0;
    if (rune < 0x80) {
        bytes[count++] = (char)rune;
    } else if (rune < 0x800) {
        bytes[count++] = (char)(0xc0 | rune >> 6);
    } else if (rune < 0x10000) {
        bytes[count++] = (char)(0xe0 | rune >> 12);
        bytes[count++] = (char)(0x80 | (rune >> 6 & 0x3f));
    } else {
        bytes[count++] = (char)(0xf0 | rune >> 18);
        bytes[count++] = (char)(0x80 | (rune >> 12 & 0x3f));
        bytes[count++] = (char)(0x80 | (rune >> 6 & 0x3f));
    }
    if (rune >= 0x80)
        bytes[count++] = (char)(0x80 | (rune & 0x3f));
    tt_text_append(to, bytes, count);
}

/* \uXXXX and \UXXXXXXXX; two \u may be the halves of a surrogate pair. */
static bool read_rune(const char **at, const char *end, int digits, uint32_t *out) {
    if (read_digits(at, end, 16, digits, out) != digits)
        return false;
    if (digits == 4 && *out >= 0xd800 && *out < 0xdc00 && end - *at >= 6 && (*at)[0] == '\\' &&
        (*at)[1] == 'u') {
        const char *second = *at + 2;
        uint32_t low;
        if (read_digits(&second, end, 16, 4, &low) == 4 && low >= 0xdc00 && low < 0xe000) {
            *out = 0x10000 + ((*out - 0xd800) << 10) + (low - 0xdc00);
            *at = second;
        }
    }
    return *out < 0x110000 && !(*out >= 0xd800 && *out < 0xe000);
}

/* Reads what follows a backslash; false: no valid escape. */
static bool read_escape(const char **at, const char *end, struct tt_text *out) {
    static const char letters[] = "abfnrtv\\'\"?", meanings[] = "\a\b\f\n\r\t\v\\'\"?";
    uint32_t value;
    char c = **at;
    if (digit_value(c) < 8) {
        read_digits(at, end, 8, 3, &value);
        if (value > 255)
            return false;
    } else if (c == 'x' || c == 'X') {
        ++*at;
        if (read_digits(at, end, 16, 2, &value) == 0)
            return false;
    } else if (c == 'u' || c == 'U') {
        ++*at;
        if (!read_rune(at, end, c == 'u' ? 4 : 8, &value))
            return false;
        append_utf8(out, value);
        return true;
    } else {
        const char *found = c ? strchr(letters, c) : NULL;
        if (!found)
            return false;
        ++*at;
        value = (unsigned char)meanings[found - letters];
    }
    char byte = (char)value;
    tt_text_append(out, &byte, 1);
    return true;
}

enum tt_err tt_textproto_lexer_unquote(struct tt_textproto_lexer *self, struct tt_text *out_bytes) {
    const char *at = self->token.at + 1, *end = self->token.at + self->token.length - 1;
    while (at < end) {
        const char *plain = at;
        while (at < end && *at != '\\')
            at++;
        tt_text_append(out_bytes, plain, (size_t)(at - plain));
        if (at == end)
            break;
        const char *start = at++;
        if (read_escape(&at, end, out_bytes))
            continue;
        struct tt_textproto_token place = self->token;
        place.column += (int32_t)(start - self->token.at);
        return tt_textproto_lexer_fail(self, &place,
                                       "this escape is not valid; the format has \\a \\b \\f \\n "
                                       "\\r \\t \\v \\\\ \\' \\\" \\?, octal \\ooo up to \\377, "
                                       "\\xhh, \\uhhhh and \\Uhhhhhhhh");
    }
    return TT_OK;
}
