/* Text as it may stand in a page. */
#ifndef TT_LAB_REPORT_HTML_TEXT_H
#define TT_LAB_REPORT_HTML_TEXT_H

#include "base/text.h"

/* `text` with what HTML reads as its own replaced. */
void tt_html_put_escaped(struct tt_text *out, const char *text);

#endif
