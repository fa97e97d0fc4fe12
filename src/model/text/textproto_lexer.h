/* Tokens of the protobuf text format, with their places; only textproto.c uses it.
 *
 * A lexer is a position in borrowed text. `token` is the current one; _next moves on. The first
 * error is kept: after it the current token is an END that no grammar rule accepts, so that a
 * parser needs to look at `err` only where it fails. */
#ifndef TT_MODEL_TEXT_TEXTPROTO_LEXER_H
#define TT_MODEL_TEXT_TEXTPROTO_LEXER_H

#include "base/err.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tt_textproto_token_kind {
    TT_TEXTPROTO_END,
    TT_TEXTPROTO_NAME,   /* an identifier */
    TT_TEXTPROTO_NUMBER, /* starts with a digit, or a dot and a digit; no sign */
    TT_TEXTPROTO_STRING, /* one quoted piece, quotes included */
    TT_TEXTPROTO_SYMBOL, /* one character */
};

struct tt_textproto_token {
    enum tt_textproto_token_kind kind;
    const char *at;
    size_t length;
    int32_t line, column;
};

struct tt_textproto_lexer {
    const char *file_name, *at, *end, *line_start;
    int32_t line;
    struct tt_textproto_token token;
    enum tt_err err;
    struct tt_error *why;
};

/* Stands on the first token. */
void tt_textproto_lexer_init(struct tt_textproto_lexer *self, const char *file_name,
                             const char *text, size_t length, struct tt_error *why);
void tt_textproto_lexer_next(struct tt_textproto_lexer *self);
bool tt_textproto_lexer_is(const struct tt_textproto_lexer *self, char symbol);
/* Moves over `symbol` if it is the current token. */
bool tt_textproto_lexer_take(struct tt_textproto_lexer *self, char symbol);
/* Keeps the error "file:line:column: ..." at the given token, unless there is one already; returns
 * the kept one. */
enum tt_err tt_textproto_lexer_fail(struct tt_textproto_lexer *self,
                                    const struct tt_textproto_token *at, const char *format, ...)
    TT_PRINTF(3, 4);
/* How the current token is shown in a message. Valid until the next call on this buffer. */
const char *tt_textproto_token_show(const struct tt_textproto_token *token, char *buffer,
                                    size_t capacity);
/* Appends the bytes that the current STRING token means, escapes resolved. */
enum tt_err tt_textproto_lexer_unquote(struct tt_textproto_lexer *self, struct tt_text *out_bytes);

#endif
