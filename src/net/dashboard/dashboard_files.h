/* The files of the live page (page/, with the charts of src/charts/), put into the program at build
 * time by cmake/embed_page.cmake, which writes the .c files. Constants only. */
#ifndef TT_NET_DASHBOARD_DASHBOARD_FILES_H
#define TT_NET_DASHBOARD_DASHBOARD_FILES_H

#include <stddef.h>

extern const unsigned char tt_live_html[], tt_live_css[], tt_live_js[];
extern const size_t tt_live_html_bytes, tt_live_css_bytes, tt_live_js_bytes;

#endif
