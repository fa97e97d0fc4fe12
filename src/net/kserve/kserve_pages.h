/* The results of kserve_operations.h as JSON, with the member names of the protocol and of Triton's
 * extensions. Each function appends one JSON value; where memory runs out, `out_json->failed` is
 * set. They read only their arguments. Implemented in kserve_pages.c. */
#ifndef TT_NET_KSERVE_KSERVE_PAGES_H
#define TT_NET_KSERVE_KSERVE_PAGES_H

#include "net/kserve/kserve_operations.h"

void tt_kserve_write_server(const struct tt_kserve_server *server, struct tt_text *out_json);
void tt_kserve_write_metadata(const struct tt_kserve_metadata *metadata, struct tt_text *out_json);
void tt_kserve_write_statistics(const struct tt_kserve_statistics *statistics,
                                struct tt_text *out_json);
void tt_kserve_write_index(const struct tt_kserve_index *index, struct tt_text *out_json);
void tt_kserve_write_log_settings(const struct tt_kserve_log_settings *settings,
                                  struct tt_text *out_json);
void tt_kserve_write_trace_settings(const struct tt_kserve_trace_settings *settings,
                                    struct tt_text *out_json);
/* {"error": sentence} */
void tt_kserve_write_error(const char *sentence, struct tt_text *out_json);

#endif
