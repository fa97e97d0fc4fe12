#include "cmd/flags.h"

#include <float.h>
#include <string.h>

bool tt_flags_row(const struct tt_verb *verb, int32_t index, struct tt_flag_row *out_row) {
    static const struct tt_flag_row help = {
        .type = TT_FLAG_SWITCH, .name = "help", .help = "print this text"};
    int32_t extra = index - verb->flag_count;
    if (extra < 0)
        *out_row = verb->flags[index];
    else if (verb->extra_flag && verb->extra_flag(extra, out_row))
        return true;
    else if (extra == 0 || (verb->extra_flag && verb->extra_flag(extra - 1, out_row)))
        *out_row = help;
    else
        return false;
    return true;
}

bool tt_flags_find(const struct tt_verb *verb, const char *text, struct tt_flag_row *out_row) {
    if (strncmp(text, "--", 2) != 0)
        return false;
    size_t length = strcspn(text + 2, "=");
    int32_t found = 0;
    struct tt_flag_row row;
    for (int32_t i = 0; tt_flags_row(verb, i, &row); i++) {
        if (row.type == TT_FLAG_HEADING || row.is_operand || length == 0 ||
            strncmp(row.name, text + 2, length) != 0)
            continue;
        *out_row = row;
        found++;
        if (row.name[length] == '\0')
            return true;
    }
    return found == 1;
}

void tt_flags_put_default(const struct tt_flag_row *row, struct tt_text *out) {
    if (row->type == TT_FLAG_INTEGER && row->default_value >= row->minimum)
        tt_text_printf(out, "%lld", (long long)row->default_value);
    else if (row->type == TT_FLAG_DECIMAL && row->default_number >= row->low)
        tt_text_printf(out, "%.10g", row->default_number);
    else if (row->type == TT_FLAG_CHOICE && row->default_value >= 0) {
        const char *word = row->choices;
        for (int64_t i = 0; i < row->default_value; i++)
            word = strchr(word, '|') + 1;
        tt_text_append(out, word, strcspn(word, "|"));
    } else if (row->type == TT_FLAG_BOOL)
        tt_text_puts(out, row->default_value ? "true" : "false");
    else if (row->default_text)
        tt_text_puts(out, row->default_text);
}

void tt_flags_put_allowed(const struct tt_flag_row *row, struct tt_text *out) {
    if (row->type == TT_FLAG_INTEGER)
        tt_text_printf(out, "a whole number from %lld to %lld", (long long)row->minimum,
                       (long long)row->maximum);
    else if (row->type == TT_FLAG_DECIMAL && row->low == DBL_MIN)
        tt_text_printf(out, "a number above 0 and at most %.10g", row->high);
    else if (row->type == TT_FLAG_DECIMAL)
        tt_text_printf(out, "a number from %.10g to %.10g", row->low, row->high);
    else if (row->type == TT_FLAG_PAIRS && !row->key)
        tt_text_puts(out, "KEY=VALUE");
    else if (row->type == TT_FLAG_CALL && row->expects)
        tt_text_puts(out, row->expects);
    bool is_choice = row->type == TT_FLAG_CHOICE || row->type == TT_FLAG_BOOL;
    for (const char *at = is_choice ? row->choices : ""; *at;) {
        size_t length = strcspn(at, "|");
        const char *next = at + length + (at[length] == '|');
        tt_text_append(out, at, length);
        tt_text_puts(out, !*next ? "" : strchr(next, '|') ? ", " : " or ");
        at = next;
    }
}
