"""The session variables that the engine does not pin (engine/mysql/pinned.py), and why."""

from collections.abc import Mapping
from typing import Final

LEFT_ALONE: Final[Mapping[str, str]] = {
    "what we write is identified by value: every column is named and given, 0 is no automatic number": (
        "auto_increment_increment auto_increment_offset"
    ),
    "they are of one session alone, so only init_connect can have set them, and that is undone (`pinning`)": (
        "gtid_next gtid_seq_no identity immediate_server_version insert_id last_insert_id "
        "original_commit_timestamp original_server_version pseudo_replica_mode pseudo_slave_mode pseudo_thread_id "
        "rand_seed1 rand_seed2 rbr_exec_mode require_row_format resultset_metadata skip_replication sql_log_bin "
        "timestamp wsrep_gtid_seq_no"
    ),
    "the log of that server, and its own replicas, are its administrator's business": (
        "binlog_alter_two_phase binlog_annotate_row_events binlog_direct_non_transactional_updates binlog_format "
        "binlog_row_image binlog_row_value_options binlog_rows_query_log_events binlog_transaction_compression "
        "binlog_transaction_compression_level_zstd default_master_connection group_replication_consistency "
        "gtid_domain_id innodb_support_xa max_relay_log_size server_id session_track_gtids skip_parallel_replication "
        "sql_slave_skip_counter wsrep_causal_reads wsrep_on wsrep_osu_method wsrep_retry_autocommit "
        "transaction_write_set_extraction wsrep_sync_wait wsrep_trx_fragment_size wsrep_trx_fragment_unit "
        "xa_detach_on_prepare"
    ),
    "a wait that ends is an error that is retried, and the time that others wait for our locks is their setting": (
        "deadlock_search_depth_long deadlock_search_depth_short deadlock_timeout_long deadlock_timeout_short "
        "innodb_lock_wait_timeout lock_wait_timeout low_priority_updates"
    ),
    "how an answer is found, not which": (
        "analyze_max_length analyze_sample_percentage big_tables bulk_insert_buffer_size "
        "enable_secondary_engine_statistics eq_range_index_dive_limit expensive_subquery_limit "
        "histogram_generation_max_mem_size histogram_size histogram_type innodb_parallel_read_threads "
        "innodb_tmpdir internal_tmp_mem_storage_engine join_buffer_size join_buffer_space_limit join_cache_level "
        "max_heap_table_size max_length_for_sort_data max_rowid_filter_size max_seeks_for_key max_tmp_tables "
        "mrr_buffer_size multi_range_count new new_mode optimizer_adjust_secondary_key_costs "
        "optimizer_extra_pruning_depth optimizer_join_limit_pref_ratio optimizer_max_sel_arg_weight "
        "optimizer_max_sel_args optimizer_max_subgraph_pairs optimizer_prune_level optimizer_scan_setup_cost "
        "optimizer_search_depth optimizer_selectivity_sampling_limit optimizer_switch "
        "optimizer_use_condition_selectivity optimizer_where_cost preload_buffer_size query_alloc_block_size "
        "query_cache_strip_comments query_cache_type query_cache_wlock_invalidate query_prealloc_size "
        "range_alloc_block_size read_buffer_size read_rnd_buffer_size rowid_merge_buff_size "
        "secondary_engine_cost_threshold set_operations_buffer_size sort_buffer_size tmp_disk_table_size "
        "tmp_memory_table_size tmp_table_size transaction_alloc_block_size transaction_prealloc_size "
        "use_stat_tables"
    ),
    "at READ COMMITTED, as we write, it does nothing": ("innodb_snapshot_isolation"),
    "exhausted memory causes an error that names the cause": (
        "connection_memory_chunk_size connection_memory_limit global_connection_memory_tracking "
        "max_session_mem_used max_tmp_session_space_usage parser_max_mem_size"
    ),
    "how tables are created and stored: our CREATE TABLE names engine and charset, and `copy.creation` adds the rest": (
        "alter_algorithm character_set_database character_set_server collation_database collation_server "
        "column_compression_threshold column_compression_zlib_level column_compression_zlib_strategy "
        "column_compression_zlib_wrap default_collation_for_utf8mb4 "
        "default_table_encryption default_tmp_storage_engine enforce_storage_engine "
        "external_table_secondary_storage_engine external_table_storage_engine innodb_compression_default "
        "innodb_ddl_buffer_size innodb_ddl_threads innodb_default_encryption_key_id innodb_strict_mode "
        "keep_files_on_create old_alter_table sql_generate_invisible_primary_key "
        "sql_if_exists sql_require_primary_key system_versioning_alter_history"
    ),
    "statements, engines and functions that we do not use": (
        "aria_repair_threads aria_sort_buffer_size aria_stats_method character_set_filesystem "
        "cte_max_recursion_depth enable_cascade_triggers generated_random_password_length "
        "innodb_ft_enable_stopword innodb_ft_user_stopword_table innodb_table_locks max_delayed_threads "
        "max_insert_delayed_threads max_points_in_geometry max_recursive_iterations max_sp_recursion_depth "
        "mhnsw_default_distance mhnsw_default_m mhnsw_ef_search myisam_repair_threads myisam_sort_buffer_size "
        "myisam_stats_method old_passwords select_into_buffer_size select_into_disk_sync "
        "select_into_disk_sync_delay standard_compliant_cte system_versioning_asof "
        "system_versioning_insert_history transaction_allow_batching updatable_views_with_limit "
        "windowing_use_high_precision"
    ),
    "the server's own logs, and information in addition to results": (
        "end_markers_in_json error_count explain_format explain_json_format_version log_disabled_statements "
        "log_queries_not_using_indexes log_slow_admin_statements log_slow_always_query_time "
        "log_slow_disabled_statements log_slow_filter log_slow_max_warnings log_slow_min_examined_row_limit "
        "log_slow_query log_slow_query_time log_slow_rate_limit log_slow_slave_statements log_slow_verbosity "
        "log_warnings long_query_time min_examined_row_limit optimizer_trace optimizer_trace_features "
        "optimizer_trace_limit optimizer_trace_max_mem_size optimizer_trace_offset print_identified_with_as_hex "
        "profiling profiling_history_size progress_report_time session_track_schema session_track_state_change "
        "session_track_system_variables session_track_transaction_info slow_query_log sql_log_off sql_warnings "
        "show_old_temporals terminology_use_previous thread_pool_priority warning_count"
    ),
    "they are of the connection, and cannot be set or mean nothing to this client": (
        "external_user in_transaction interactive_timeout last_gtid max_allowed_packet max_user_connections "
        "net_buffer_length net_retry_count old proxy_user redirect_url tcp_nodelay"
    ),
    "other names of the same variables": ("storage_engine tx_isolation tx_read_only"),
}
"""Reason -> variables."""
