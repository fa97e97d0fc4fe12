/* What the paths of kserve_routes.h answer, one function each: the reply is filled, with status 200
 * or an error. They read; what changes the server's models or settings is said so. */
#ifndef TT_NET_KSERVE_KSERVE_PAGES_H
#define TT_NET_KSERVE_KSERVE_PAGES_H

#include "net/kserve/kserve_routes.h"

/* kserve_pages.c */
void tt_page_root(const struct tt_route_world *world, struct tt_reply *reply);
void tt_page_server(const struct tt_route_world *world, struct tt_reply *reply);
void tt_page_live(const struct tt_route_world *world, struct tt_reply *reply);
void tt_page_ready(const struct tt_route_world *world, struct tt_reply *reply);
void tt_page_metrics(const struct tt_route_world *world, struct tt_reply *reply);
void tt_page_model(const struct tt_route_world *world, const struct tt_served_model *model,
                   struct tt_reply *reply);
void tt_page_config(const struct tt_served_model *model, struct tt_reply *reply);

/* kserve_repository.c */
void tt_page_index(const struct tt_route_world *world, const char *body, size_t body_bytes,
                   struct tt_reply *reply);
/* The command that a load's or unload's body asks for, NULL where the reply says what is wrong with
 * it. The caller's. */
struct tt_model_command *tt_page_command(const char *model, bool is_load, const char *body,
                                         size_t body_bytes, struct tt_reply *reply);

/* kserve_stats.c; `model` NULL: all that serve, `version` "": all versions. */
void tt_page_stats(const struct tt_route_world *world, const char *model, const char *version,
                   struct tt_reply *reply);

/* kserve_settings.c: shows the settings, and changes them first where there is a body; `model`
 * NULL: those of all. */
void tt_page_trace(const struct tt_route_world *world, const char *model, bool changes,
                   const char *body, size_t body_bytes, struct tt_reply *reply);
void tt_page_logging(const struct tt_route_world *world, bool changes, const char *body,
                     size_t body_bytes, struct tt_reply *reply);

/* kserve_debug.c; `target` as it stood in the request line. */
void tt_page_debug_trace(const struct tt_route_world *world, const char *target,
                         struct tt_reply *reply);

#endif
