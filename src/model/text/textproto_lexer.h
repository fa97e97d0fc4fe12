/* Tokens of the protobuf text format, with their places.
 *
 * A lexer is a position in borrowed text. `token` is the current token; _next moves on. The lexer
 * keeps the first error. After it the current token is END, which no grammar rule accepts, so a
 * parser checks `err` only where it fails. */
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
    TT_TEXTPROTO_NUMBER, /* begins with a digit, or a dot and a digit; no sign */
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

/* Makes the first token current. */
void tt_textproto_lexer_init(struct tt_textproto_lexer *self, const char *file_name,
                             const char *text, size_t length, struct tt_error *why);
void tt_textproto_lexer_next(struct tt_textproto_lexer *self);
bool tt_textproto_lexer_is(const struct tt_textproto_lexer *self, char symbol);
/* Moves past `symbol` if it is the current token; true if so. */
bool tt_textproto_lexer_take(struct tt_textproto_lexer *self, char symbol);
/* Keeps the error "file:line:column: ..." at the given token, unless there is one already. Returns
 * the kept error. */
enum tt_err tt_textproto_lexer_fail(struct tt_textproto_lexer *self,
                                    const struct tt_textproto_token *at, const char *format, ...)
    TT_PRINTF(3, 4);
/* The current token as a message shows it. Valid until the next call with this buffer. */
const char *tt_textproto_token_show(const struct tt_textproto_token *token, char *buffer,
                                    size_t capacity);
/* Appends the bytes of the current STRING token, with escapes resolved. */
enum tt_err tt_textproto_lexer_unquote(struct tt_textproto_lexer *self, struct tt_text *out_bytes);

#endif
