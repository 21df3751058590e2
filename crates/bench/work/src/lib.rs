//! The loops that a bench measures, and the meter around them: what has to cost next to nothing
//! itself. So it is compiled for speed where the rest of the bench is compiled quickly.

mod crud;
mod latency;
mod measure;
mod oltp;
mod texts;

pub use crud::{Crud, CrudRequest};
pub use latency::{Latencies, Percentiles, whole};
pub use measure::{Cost, Meter, of_use};
pub use oltp::{Oltp, OltpDone, OltpShare, Workload, create, create_index, text};
pub use texts::{business_name, card_number, city, secure_string, zip_code};
