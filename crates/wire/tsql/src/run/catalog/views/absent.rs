//! Views of what does not exist here: they have columns, and never a row.

use tdekit_wire_tds::{Length, SqlType};

use super::{BIT, Columns, DESC, INT, LONG, NAME, SMALL, Source, TIME, TINY, View};

const fn absent(name: &'static str, columns: Columns) -> View {
    View { name, columns, source: Source::Empty }
}

pub(crate) const VIEWS: &[View] = &[
    absent("sys.assemblies", ASSEMBLIES),
    absent("sys.column_encryption_keys", COLUMN_KEYS),
    absent("sys.column_master_keys", COLUMN_MASTER_KEYS),
    absent("sys.event_notifications", NOTIFICATIONS),
    absent("sys.fulltext_catalogs", FULLTEXT_CATALOGS),
    absent("sys.fulltext_stoplists", STOPLISTS),
    absent("sys.partition_functions", PARTITION_FUNCTIONS),
    absent("sys.partition_schemes", PARTITION_SCHEMES),
    absent("sys.registered_search_property_lists", PROPERTY_LISTS),
    absent("sys.service_queues", QUEUES),
    absent("sys.services", SERVICES),
    absent("sys.synonyms", SYNONYMS),
    absent("sys.xml_schema_collections", XML_SCHEMAS),
];

const ASSEMBLIES: Columns = &[
    ("name", NAME),
    ("principal_id", INT),
    ("assembly_id", INT),
    ("clr_name", LONG),
    ("permission_set", TINY),
    ("permission_set_desc", DESC),
    ("is_visible", BIT),
    ("create_date", TIME),
    ("modify_date", TIME),
    ("is_user_defined", BIT),
];

const COLUMN_KEYS: Columns = &[
    ("name", NAME),
    ("column_encryption_key_id", INT),
    ("create_date", TIME),
    ("modify_date", TIME),
];

const COLUMN_MASTER_KEYS: Columns = &[
    ("name", NAME),
    ("column_master_key_id", INT),
    ("create_date", TIME),
    ("modify_date", TIME),
    ("key_store_provider_name", NAME),
    ("key_path", SqlType::NVarChar(Length::Of(4000))),
    ("allow_enclave_computations", BIT),
    ("signature", SqlType::VarBinary(Length::Max)),
];

const NOTIFICATIONS: Columns = &[
    ("name", NAME),
    ("object_id", INT),
    ("parent_class", TINY),
    ("parent_class_desc", DESC),
    ("parent_id", INT),
    ("create_date", TIME),
    ("modify_date", TIME),
    ("service_name", SqlType::NVarChar(Length::Of(512))),
    ("broker_instance", NAME),
    ("creator_sid", SqlType::VarBinary(Length::Of(85))),
    ("principal_id", INT),
];

const FULLTEXT_CATALOGS: Columns = &[
    ("fulltext_catalog_id", INT),
    ("name", NAME),
    ("path", SqlType::NVarChar(Length::Of(260))),
    ("is_default", BIT),
    ("is_accent_sensitivity_on", BIT),
    ("data_space_id", INT),
    ("file_id", INT),
    ("principal_id", INT),
    ("is_importing", BIT),
];

const STOPLISTS: Columns = &[
    ("stoplist_id", INT),
    ("name", NAME),
    ("create_date", TIME),
    ("modify_date", TIME),
    ("principal_id", INT),
];

const PARTITION_FUNCTIONS: Columns = &[
    ("name", NAME),
    ("function_id", INT),
    ("type", SqlType::Char(2)),
    ("type_desc", DESC),
    ("fanout", INT),
    ("boundary_value_on_right", BIT),
    ("is_system", BIT),
    ("create_date", TIME),
    ("modify_date", TIME),
];

const PARTITION_SCHEMES: Columns = &[
    ("name", NAME),
    ("data_space_id", INT),
    ("type", SqlType::Char(2)),
    ("type_desc", DESC),
    ("is_default", BIT),
    ("is_system", BIT),
    ("function_id", INT),
];

const PROPERTY_LISTS: Columns = &[
    ("property_list_id", INT),
    ("name", NAME),
    ("create_date", TIME),
    ("modify_date", TIME),
    ("principal_id", INT),
];

const QUEUES: Columns = &[
    ("name", NAME),
    ("object_id", INT),
    ("principal_id", INT),
    ("schema_id", INT),
    ("parent_object_id", INT),
    ("type", SqlType::Char(2)),
    ("type_desc", DESC),
    ("create_date", TIME),
    ("modify_date", TIME),
    ("is_ms_shipped", BIT),
    ("is_published", BIT),
    ("is_schema_published", BIT),
    ("max_readers", SMALL),
    ("activation_procedure", SqlType::NVarChar(Length::Of(776))),
    ("execute_as_principal_id", INT),
    ("is_activation_enabled", BIT),
    ("is_receive_enabled", BIT),
    ("is_enqueue_enabled", BIT),
    ("is_retention_enabled", BIT),
    ("is_poison_message_handling_enabled", BIT),
];

const SERVICES: Columns =
    &[("name", NAME), ("service_id", INT), ("principal_id", INT), ("service_queue_id", INT)];

const SYNONYMS: Columns = &[
    ("name", NAME),
    ("object_id", INT),
    ("schema_id", INT),
    ("base_object_name", SqlType::NVarChar(Length::Of(1035))),
];

const XML_SCHEMAS: Columns = &[
    ("xml_collection_id", INT),
    ("schema_id", INT),
    ("principal_id", INT),
    ("name", NAME),
    ("create_date", TIME),
    ("modify_date", TIME),
];
