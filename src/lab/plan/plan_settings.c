#include "lab/plan/plan_settings.h"

#include "base/instant.h"
#include "model/text/textproto_lexer.h"

#include <string.h>

static bool is_named(const struct tt_textproto_token *token, const char *name) {
    return token->length == strlen(name) && memcmp(token->at, name, token->length) == 0;
}

static bool is_replaced(const struct tt_textproto_token *token,
                        const struct tt_plan_settings *settings) {
    if (is_named(token, "policy"))
        return true;
    return settings->slo_ns >= 0 && (is_named(token, "slo_us") || is_named(token, "slo_ms"));
}

/* Moves past one field, from its name on. Returns where its text ends. */
static const char *skip_field(struct tt_textproto_lexer *lexer) {
    const char *end = lexer->token.at + lexer->token.length;
    int32_t depth = 0;
    bool has_value = false;
    tt_textproto_lexer_next(lexer);
    while (lexer->token.kind != TT_TEXTPROTO_END) {
        const struct tt_textproto_token token = lexer->token;
        char symbol = token.kind == TT_TEXTPROTO_SYMBOL ? *token.at : '\0';
        bool separates = symbol == ',' || symbol == ';';
        if (depth == 0 && has_value && token.kind != TT_TEXTPROTO_STRING && !separates)
            break; /* the next field */
        depth += symbol == '{' || symbol == '<' || symbol == '[';
        depth -= symbol == '}' || symbol == '>' || symbol == ']';
        has_value |= symbol != ':' && symbol != '-' && depth == 0;
        end = token.at + token.length;
        tt_textproto_lexer_next(lexer);
        if (separates && depth == 0)
            break;
    }
    return end;
}

/* Appends the text between two places, and ends its last line. */
static void put_kept(struct tt_text *out, const char *from, const char *to) {
    while (from < to && (*from == '\n' || *from == ' '))
        from++;
    while (to > from && (to[-1] == '\n' || to[-1] == ' '))
        to--;
    if (from == to)
        return;
    tt_text_append(out, from, (size_t)(to - from));
    tt_text_puts(out, "\n");
}

enum tt_err tt_plan_settings_text(const char *text, const struct tt_plan_settings *settings,
                                  struct tt_text *out_text, struct tt_error *why) {
    struct tt_textproto_lexer lexer;
    const char *kept = text;
    tt_textproto_lexer_init(&lexer, "tutti.pbtxt", text, strlen(text), why);
    while (lexer.token.kind == TT_TEXTPROTO_NAME) {
        const struct tt_textproto_token name = lexer.token;
        const char *end = skip_field(&lexer);
        if (!is_replaced(&name, settings))
            continue;
        put_kept(out_text, kept, name.at);
        kept = end;
    }
    if (lexer.err)
        return lexer.err;
    put_kept(out_text, kept, text + strlen(text));
    if (settings->slo_ns > 0 && settings->slo_ns != TT_NEVER)
        tt_text_printf(out_text, "slo_us: %lld\n", (long long)(settings->slo_ns / TT_US));
    if (settings->policy) {
        tt_text_printf(out_text, "policy {\n  name: \"%s\"\n", settings->policy);
        for (int32_t i = 0; i < settings->option_count; i++)
            tt_text_printf(out_text, "  option { key: \"%s\" value: \"%s\" }\n",
                           settings->options[i].key, settings->options[i].value);
        tt_text_puts(out_text, "}\n");
    }
    return out_text->failed ? tt_fail(TT_ERR_NO_MEMORY, why, "out of memory") : TT_OK;
}
