#include "lab/report/html_text.h"

void tt_html_put_escaped(struct tt_text *out, const char *text) {
    for (; *text; text++)
        switch (*text) {
        case '<': tt_text_puts(out, "&lt;"); break;
        case '>': tt_text_puts(out, "&gt;"); break;
        case '&': tt_text_puts(out, "&amp;"); break;
        case '"': tt_text_puts(out, "&quot;"); break;
        default: tt_text_append(out, text, 1);
        }
}
