//! A state without the fields that its row has in columns is read whole.

use serde_json::{Value, json};

use crate::db::Pool;
use crate::id::{InstanceId, TenantId};
use crate::store::instance;
use crate::testing::store::Fixture;

#[tokio::test]
async fn a_state_is_read_with_the_columns_of_its_row() {
    let fixture = Fixture::new().await;
    let pool = Pool::new(&fixture.base, 1).unwrap();
    let odd = "a\"b\\c\n\u{1}é😀:,\"format\":9";
    let sub_statuses = ["Pending", "Executing", "Suspended", "Finished", "Cancelled", "Faulted"];
    for (number, sub_status) in (0_i16..).zip(sub_statuses) {
        let id = format!("{odd}{number}");
        let (status, name) = if number < 3 {
            (0_i16, "Running")
        } else {
            (1, "Finished")
        };
        let insert =
            "INSERT INTO instance (tenant_id, id, definition_id, version_id, definition_version, status, sub_status,
                                            version, state)
            VALUES ('', $1, $2, $3, 7, $4, $5, 1, convert_to('{\"format\":2,\"counter\":3}', 'UTF8'))";
        let version_id = format!("{odd} of a version");
        let client = &fixture.admin.client;
        client
            .execute(insert, &[&id, &odd, &version_id, &status, &number])
            .await
            .unwrap();
        let found = instance::find(&pool, &TenantId::default(), &InstanceId::new(id.clone()))
            .await
            .unwrap();
        let state: Value = serde_json::from_slice(&found.unwrap().1).unwrap();
        let whole = json!({"instanceId": id, "definitionId": odd, "versionId": version_id, "version": 7, "status": name,
            "subStatus": sub_status, "format": 2, "counter": 3});
        assert_eq!(state, whole);
    }
}
